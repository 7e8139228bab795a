"""Every setting of the control plane, with its unit, default, bounds and reason.

Environment variables carry `WEIR_` before the name. A value outside its bounds is refused here, when a process starts;
`controlplane/checks.py` has the rules between several settings. `docs/settings.md` lists both, and a test compares them.
"""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    DirectoryPath,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from controlplane.config import bounds
from controlplane.config.providers import Provider, SamlProvider, named_once
from controlplane.config.providers import read as read_providers

Port = Annotated[int, Field(ge=0, le=bounds.MAX_PORT)]
GatewayUrl = Annotated[str, AfterValidator(bounds.server_url)]
PublicUrl = Annotated[str, AfterValidator(bounds.public_url)]
RedisUrl = Annotated[str, AfterValidator(bounds.redis_url)]
OptionalUrl = Annotated[str, AfterValidator(bounds.optional(bounds.http_url))]
OptionalServerUrl = Annotated[str, AfterValidator(bounds.optional(bounds.server_url))]
OptionalHostPort = Annotated[str, AfterValidator(bounds.optional(bounds.host_port))]
OptionalStoreDsn = Annotated[str, AfterValidator(bounds.optional(bounds.store_dsn))]
OptionalSecret = Annotated[str, AfterValidator(bounds.optional(bounds.long_secret))]
OptionalMailUrl = Annotated[str, AfterValidator(bounds.optional(bounds.mail_url))]
MailAddress = Annotated[str, AfterValidator(bounds.mail_address)]
TeamName = Annotated[str, AfterValidator(bounds.team_name)]
HostNames = Annotated[list[str], NoDecode, AfterValidator(bounds.host_names)]
Providers = Annotated[list[Provider], NoDecode, BeforeValidator(read_providers), AfterValidator(named_once)]
SamlProviders = Annotated[list[SamlProvider], NoDecode, BeforeValidator(read_providers)]
Networks = Annotated[list[str], NoDecode, AfterValidator(bounds.networks)]


class ConfigError(ValueError):
    """Permanent: the environment cannot be used. The message has one line per setting, with its value and the remedy."""


class Config(BaseSettings):
    """Read once per process, from the environment. The defaults are those of one machine."""

    model_config = SettingsConfigDict(env_prefix="WEIR_", frozen=True, extra="ignore")

    home: Path = Field(Path(".weir"), description="The folder of embedded parts' data and of secrets (mode 0600).")
    allowed_hosts: HostNames = Field(
        ["localhost", "127.0.0.1", "[::1]"], description="Host names the dashboard answers to, separated by commas."
    )
    https: bool = Field(
        False,
        description="Browsers use HTTPS, and a proxy sets X-Forwarded-Proto. Turns on secure cookies, HSTS and a redirect.",
    )
    secret_key: OptionalSecret = Field(
        "", repr=False, description="Django's signing key; empty reads (or makes) `secret-key` in `home`."
    )
    encryption_keys: Annotated[list[str], NoDecode] = Field(
        [],
        repr=False,
        description="What secrets of destinations and second factors are encrypted with, separated by commas: the first encrypts, "
        "any decrypts; empty reads (or makes) `encryption-keys` in `home`.",
    )
    log_format: Literal["console", "json"] = Field(
        "console", description="`json` for a log collector, one object per line."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The least severe level written."
    )
    database_url: str = Field(
        "", repr=False, description="sqlite:///PATH or postgresql://…; empty is SQLite in `home`."
    )
    redis_url: RedisUrl = Field(
        "redis://127.0.0.1:6379/0", repr=False, description="Channel layer, Celery broker, gateway cache."
    )
    store_dsn: OptionalStoreDsn = Field(
        "", repr=False, description="clickhouse://user:password@host:port/database, embedded or a cluster."
    )
    otlp_http_port: Port = Field(4318, description="OTLP over HTTP.")
    otlp_grpc_port: Port = Field(4317, description="OTLP over gRPC.")
    otlp_host: str = Field("127.0.0.1", description="Address the OTLP receivers bind to.")
    otlp_token: str = Field(
        "", repr=False, description="What senders of spans carry as bearer token; empty needs none."
    )
    otlp_endpoint: OptionalUrl = Field(
        "", description="Where this process sends its own spans, such as http://127.0.0.1:4318; empty sends none."
    )
    snapshot_path: Path | None = Field(
        None, description="The policy snapshot file; empty is `snapshot.json` in `home`."
    )
    snapshot_token: str = Field(
        "",
        repr=False,
        description="Bearer token with which gateways read /internal/snapshot of web; empty answers their own machine alone.",
    )
    retention_days: int = Field(
        30, ge=1, le=bounds.MAX_RETENTION_DAYS, description="How long spans and request rows are kept, days."
    )
    rollup_retention_days: int = Field(
        396,
        ge=bounds.MIN_ROLLUP_DAYS,
        le=bounds.MAX_RETENTION_DAYS,
        description="How long rollups and demand are kept, days: long pages and forecasts read them.",
    )
    gateway_url: GatewayUrl = Field("http://127.0.0.1:8080", description="The gateway that the worker observes.")
    lane_url: OptionalServerUrl = Field(
        "", description="The lane that the worker observes and telemetry scrapes; empty is none."
    )
    metrics_token: str = Field(
        "",
        repr=False,
        description="Bearer token for /metrics of every process; empty: gateway, worker and controller answer their own machine alone, "
        "and web those who are logged in or send an API token.",
    )
    metrics_certificate: Path | None = Field(
        None, description="PEM chain with which controller and worker speak TLS on /metrics, /readyz and /healthz."
    )
    metrics_key: Path | None = Field(None, description="PEM key of that certificate, without a password.")
    web_url: OptionalServerUrl = Field(
        "http://127.0.0.1:8000",
        description="The web process that telemetry scrapes where WEIR_METRICS_TOKEN is set; empty scrapes none.",
    )
    telemetry_url: OptionalServerUrl = Field(
        "",
        description="Where the telemetry process answers, such as http://weir-telemetry:4318; empty is this machine.",
    )
    worker_metrics: OptionalHostPort = Field(
        "",
        description="host:port where the worker answers /metrics and /healthz; empty is nowhere.",
    )
    observe_every_s: float = Field(
        5.0,
        ge=2,
        le=3600,
        description="How often the worker probes every component, s. Pages depend on it.",
    )
    decisions_days: int = Field(
        90,
        ge=1,
        le=bounds.MAX_RETENTION_DAYS,
        description="How long decisions of policies and what became of them are kept, days.",
    )
    controller_host: str = Field("127.0.0.1", description="Address of the controller's /readyz and /metrics.")
    controller_port: Port = Field(
        8090, description="Port of the controller's /readyz and /metrics; 0 takes a free one."
    )
    public_url: PublicUrl = Field(
        "http://127.0.0.1:8000", description="The dashboard's URL for people, which links in pages use."
    )
    outbound_allow: Annotated[list[str], NoDecode] = Field(
        [],
        description="Private networks, addresses and host names that pages may be sent to, separated by commas; "
        "plain http too. All others must be https and public.",
    )
    backend_link_local: bool = Field(
        False,
        description="Whether model servers may have link-local addresses, where clouds have their metadata.",
    )
    operated_by: TeamName = Field(
        "serving",
        description="The team that operates Weir's own processes and Redis: it owns their incidents.",
    )
    component_page_after_s: float = Field(
        15.0,
        ge=5,
        le=300,
        description="How long gateway, telemetry or a whole pool must be down before it is a page, s. Longer than their restart.",
    )
    component_ticket_after_s: float = Field(
        60.0, ge=5, le=3600, description="How long a replica or Redis must be down before it is a ticket, s."
    )
    component_up_for_s: float = Field(
        60.0,
        le=3600,
        description="How long a component must be up before its incident resolves, s: flapping stays one incident.",
    )
    trusted_proxies: Networks = Field(
        [],
        description="Addresses and networks of the proxies in front of web, separated by commas: only their X-Forwarded-For is "
        "trusted, and failed logins are counted by the address in it.",
    )
    api_requests_per_minute: int = Field(
        1_200,
        ge=0,
        description="How many requests to the REST API a token may send in a minute, to each process of web; 0 is no limit.",
    )
    oidc: Providers = Field(
        [],
        repr=False,
        description="Providers of OpenID Connect that people log in through, as a JSON list (docs/login.md); empty is none.",
    )
    saml: SamlProviders = Field(
        [],
        description="Providers of SAML 2.0 that people log in through, as a JSON list (docs/login.md); empty is none.",
    )
    oidc_reread_s: float = Field(
        60.0,
        ge=0,
        le=3600,
        description="How old what a provider says of a person may be, s: a later request asks it again. 0 asks at each request.",
    )
    oidc_outage_s: float = Field(
        3600.0,
        ge=60,
        le=86_400,
        description="How long it counts while the provider does not answer, or cannot be asked (SAML), s; then log-ins through it end, "
        "and roles by its groups.",
    )
    local_login: Literal["everybody", "break-glass"] = Field(
        "everybody", description="Who may log in by a password or passkey of this installation, beside its providers."
    )
    require_second_factor: bool = Field(
        False, description="Whether administrators and approvers who log in by a password need a second factor."
    )
    mail_url: OptionalMailUrl = Field(
        "",
        repr=False,
        description="The mail server that sends links to reset a password: smtp:// speaks STARTTLS unless it is on this machine, "
        "smtps:// TLS; empty sends none.",
    )
    mail_from: MailAddress = Field("weir@localhost", description="The sender of mail.")
    heartbeat_url: OptionalUrl = Field(
        "",
        repr=False,
        description="Requested every minute while evaluation and paging work; a service elsewhere pages when the requests stop.",
    )

    forecast_processes: int = Field(
        2, ge=1, le=64, description="How many processes of the worker compare candidates at a time: each uses a core."
    )

    kubeconfigs_dir: DirectoryPath | None = Field(
        None, description="The folder of clusters' kubeconfig files; empty is `kubeconfigs` in `home`."
    )

    resources_namespace: str = Field(
        "",
        pattern=r"^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)?$",
        description="The namespace whose custom resources come into force, in the cluster that Weir runs in; empty follows none.",
    )
    local_cluster_url: OptionalServerUrl = Field(
        "",
        description="Where the launcher of `make run` serves the local cluster; it sets this for its parts. "
        "The bearer token for it is `cluster-token` in `home`.",
    )

    @field_validator("allowed_hosts", "outbound_allow", "encryption_keys", "trusted_proxies", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value

    @field_validator("saml")
    @classmethod
    def _named_once(cls, value: list[SamlProvider], info: ValidationInfo) -> list[SamlProvider]:
        named_once([*info.data.get("oidc", []), *value])
        return value

    @field_validator("home", mode="after")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @classmethod
    def load(cls) -> Self:
        """Read the environment. Raises ConfigError with a line for each setting that cannot be used."""
        try:
            return cls()
        except ValidationError as error:
            raise refusal(error, cls) from error

    @property
    def providers(self) -> list[Provider | SamlProvider]:
        """Through which people log in, as the log-in page has them."""
        return [*self.oidc, *self.saml]

    @property
    def snapshot_file(self) -> Path:
        return self.snapshot_path or self.home / "snapshot.json"

    @property
    def stale_after_s(self) -> float:
        """Age from which an observation says nothing, s: four missed rounds. With fewer, one slow round looks like an outage."""
        return 4 * self.observe_every_s

    @property
    def kubeconfigs_folder(self) -> Path:
        return self.kubeconfigs_dir or self.home / "kubeconfigs"

    @property
    def receiver_url(self) -> str:
        """Where the receiver answers. Without a setting it is on this machine; bound to every address it answers on loopback."""
        if self.telemetry_url:
            return self.telemetry_url.rstrip("/")
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.otlp_host, self.otlp_host)  # noqa: S104  (not a bind)
        return f"http://{host}:{self.otlp_http_port}"


def refusal(error: ValidationError, settings: type[Config]) -> ConfigError:
    """The error as a person reads it. The value of a setting that may hold a secret is left out."""
    lines = []
    for problem in error.errors():
        name = str(problem["loc"][0])
        field = settings.model_fields[name]
        given = problem["input"]
        text = ",".join(given) if isinstance(given, list) else str(given)
        value = f"={text!r}" if field.repr else ""
        place = "".join(f"{part}: " for part in problem["loc"][1:])
        reason = place + problem["msg"].removeprefix("Value error, ")
        lines.append(f"WEIR_{name.upper()}{value} is refused ({reason[:1].lower()}{reason[1:]}): {field.description}")
    return ConfigError("\n".join(lines))
