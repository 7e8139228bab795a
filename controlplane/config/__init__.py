"""Every setting of the control plane: one place, with its unit, default and reason.

Environment variables carry `WEIR_` before the name. `controlplane/config/checks.py` checks each of them at start, and
`docs/settings.md` lists them; a test keeps the three together.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict


class Config(BaseSettings):
    """Read once per process, from the environment. The defaults are those of one machine."""

    model_config = SettingsConfigDict(env_prefix="WEIR_", frozen=True, extra="ignore")

    home: Path = Field(
        Path(".weir"), description="Where embedded parts keep their data, and where secrets lie (mode 0600)."
    )
    debug: bool = Field(False, description="Django's debug pages. Never outside a developer's machine.")
    allowed_hosts: Annotated[list[str], NoDecode] = Field(
        ["localhost", "127.0.0.1", "[::1]"], description="Host names the dashboard answers to, separated by commas."
    )
    https: bool = Field(
        False,
        description="Browsers come over HTTPS, and a proxy sets X-Forwarded-Proto: secure cookies, HSTS, redirect.",
    )
    secret_key: str = Field("", description="Django's signing key; empty reads (or makes) `secret-key` in `home`.")
    encryption_keys: Annotated[list[str], NoDecode] = Field(
        [],
        repr=False,
        description="What secrets of destinations are encrypted with, separated by commas: the first encrypts, any decrypts; "
        "empty reads (or makes) `encryption-keys` in `home`.",
    )
    session_hours: int = Field(12, description="How long a login lasts, hours: a shift.")
    log_format: Literal["console", "json"] = Field(
        "console", description="`json` for a log collector, one object per line."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The least severe level written."
    )
    database_url: str = Field("", description="sqlite:///PATH or postgresql://…; empty is SQLite in `home`.")
    database_timeout_s: float = Field(
        10.0, description="How long a write waits for SQLite's lock, or a connection to PostgreSQL, s."
    )
    redis_url: str = Field("redis://127.0.0.1:6379/0", description="Channel layer, Celery broker, gateway cache.")
    store_dsn: str = Field("", description="clickhouse://user:password@host:port/database, embedded or a cluster.")
    otlp_http_port: int = Field(4318, description="OTLP over HTTP.")
    otlp_grpc_port: int = Field(4317, description="OTLP over gRPC.")
    otlp_host: str = Field("127.0.0.1", description="Address the OTLP receivers bind to.")
    otlp_token: str = Field(
        "", repr=False, description="What senders of spans carry as bearer token; empty asks for none."
    )
    otlp_endpoint: str = Field(
        "", description="Where this process sends its own spans, such as http://127.0.0.1:4318; empty sends none."
    )
    snapshot_path: Path | None = Field(
        None, description="The policy snapshot file; empty is `snapshot.json` in `home`."
    )
    retention_days: int = Field(30, description="How long spans and request rows are kept, days.")
    gateway_url: str = Field("http://127.0.0.1:8080", description="The gateway that the worker observes.")
    metrics_token: str = Field(
        "",
        description="Bearer token for /metrics of every process; empty: gateway, worker and controller answer their own machine alone, "
        "and web those who are logged in or send an API token.",
    )
    web_url: str = Field(
        "http://127.0.0.1:8000",
        description="The web process that telemetry scrapes where WEIR_METRICS_TOKEN is set; empty scrapes none.",
    )
    worker_metrics: str = Field(
        "",
        description="host:port where the worker answers /metrics and /healthz; empty is nowhere.",
    )
    observe_every_s: float = Field(
        5.0, description="How often the worker asks every component how it is, s. On-call pages live by it."
    )
    observe_timeout_s: float = Field(
        2.0, description="How long one component may take to answer before it counts as down, s."
    )
    stale_after_s: float = Field(
        20.0, description="Age from which an observation is no longer believed, s: four missed rounds."
    )
    evaluate_every_s: float = Field(
        5.0, description="How often the controller judges every objective, s. A total outage pages within 75 s."
    )
    controller_host: str = Field("127.0.0.1", description="Address of the controller's /readyz and /metrics.")
    controller_port: int = Field(8090, description="Port of the controller's /readyz and /metrics; 0 takes a free one.")
    public_url: str = Field(
        "http://127.0.0.1:8000", description="The dashboard as people reach it: where links in pages lead."
    )
    outbound_allow: Annotated[list[str], NoDecode] = Field(
        [],
        description="Private networks, addresses and host names that pages may be sent to, separated by commas; "
        "plain http too. All else must be https and public.",
    )
    evaluation_stopped_after_s: float = Field(
        60.0, description="How long objectives may go unevaluated before the default destinations are paged, s."
    )
    component_page_after_s: float = Field(
        15.0,
        description="How long gateway, telemetry or a whole pool must be down before it is a page, s. Longer than their restart.",
    )
    component_ticket_after_s: float = Field(
        60.0, description="How long a replica or Redis must be down before it is a ticket, s."
    )
    component_start_s: float = Field(
        300.0,
        description="The same of what was not seen up just before, s: what a start of the whole system may take.",
    )
    component_up_for_s: float = Field(
        60.0, description="How long a component must be up before its incident is over, s: flapping stays one incident."
    )
    objectives_unknown_after_s: float = Field(
        300.0, description="How long objectives may be unknown before their owner is paged, s."
    )
    trusted_proxies: Annotated[list[str], NoDecode] = Field(
        [],
        description="Addresses and networks of the proxies in front of web, separated by commas: from them alone X-Forwarded-For is "
        "believed, and failed logins are counted by the address it names.",
    )
    heartbeat_url: str = Field(
        "",
        repr=False,
        description="Asked every minute while evaluation and paging work; a service elsewhere pages when it is not.",
    )

    @field_validator("allowed_hosts", "outbound_allow", "encryption_keys", "trusted_proxies", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value

    @field_validator("home", mode="after")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @property
    def snapshot_file(self) -> Path:
        return self.snapshot_path or self.home / "snapshot.json"

    @property
    def telemetry_url(self) -> str:
        """Where the receiver answers; a receiver bound to every address answers on loopback."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.otlp_host, self.otlp_host)  # noqa: S104  (not a bind)
        return f"http://{host}:{self.otlp_http_port}"


class ConfigError(ValueError):
    """The environment cannot be understood; the message has one line per setting, with its value and the remedy."""


def load() -> Config:
    """Read the environment. Raises ConfigError."""
    try:
        return Config()
    except ValidationError as error:
        lines = [
            f"WEIR_{'_'.join(str(part) for part in problem['loc'][:1]).upper()}={problem['input']!r} is refused "
            f"({problem['msg'].lower()}): {Config.model_fields[str(problem['loc'][0])].description}"
            for problem in error.errors()
        ]
        raise ConfigError("\n".join(lines)) from error
