"""The gateway's settings, each with its unit, default and reason. Environment variables have the prefix `WEIR_`."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict

from inference.contract.address import parse_url
from inference.contract.errors import PermanentError
from inference.contract.lane import MIN_LANE_TOKEN_CHARS
from inference.contract.tls.certificate import check_whole
from inference.contract.tls.clear_text import Connection, connections, reached
from inference.wires.http.cors import ORIGIN
from inference.wires.redis.url import parse

FLUSH_CACHE_S, FLUSH_SPANS_S = 1.0, 5.0
"""When the process ends, how long the last writes to the cache and the last spans may take."""


class Config(BaseSettings):
    """Read once per process, from the environment. Whatever changes while it runs is in the policy snapshot."""

    model_config = SettingsConfigDict(env_prefix="WEIR_", frozen=True, extra="ignore")

    home: Path = Field(
        default=Path(".weir"), description="Where the snapshot lies unless `snapshot_path` says otherwise."
    )
    log_format: Literal["console", "json"] = Field(
        default="console", description="`json` for a log collector, one object per line."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least severe level written."
    )
    gateway_host: str = Field(
        default="127.0.0.1", description="Address to listen on. The default takes connections from this machine only."
    )
    gateway_port: int = Field(
        default=8080, ge=0, le=65535, description="Port to listen on; 0 takes a free one and logs it."
    )
    gateway_workers: int = Field(
        default=1,
        ge=1,
        le=256,
        description="Processes that serve the port together. Settings that bound memory and connections are of all together.",
    )
    worker_hung_ms: int = Field(
        default=30_000,
        ge=5_000,
        description="A worker of several that gives no sign of life for so long is killed and started again, ms.",
    )
    tls_certificate: Path | None = Field(
        default=None, description="PEM chain for TLS to clients, read again when it changes; empty serves plain HTTP."
    )
    tls_key: Path | None = Field(default=None, description="PEM key of that certificate, without a password.")
    tls_client_ca: Path | None = Field(
        default=None, description="PEM certificates; clients must have one signed by them. Empty takes any client."
    )
    redis_url: str = Field(
        default="redis://127.0.0.1:6379/0",
        description="Holds cached answers, and counts limits over all gateways. redis://, rediss:// (TLS) or unix:// for a "
        "server, redis+sentinel://SENTINEL:26379,…/MASTER, redis+cluster://NODE:6379,…; empty serves without a cache, and "
        "each gateway counts limits alone.",
    )
    snapshot_path: Path | None = Field(
        default=None,
        description="The policy snapshot file, or a folder with `snapshot.json`; empty is `snapshot.json` in `home`.",
    )
    snapshot_url: str = Field(
        default="",
        pattern="^(https?://.+)?$",
        description="Where `web` serves the snapshot, such as http://weir-web:8000/internal/snapshot; empty reads the file.",
    )
    snapshot_token: str = Field(
        default="", repr=False, description="Bearer token for `snapshot_url`: the WEIR_SNAPSHOT_TOKEN of `web`."
    )
    snapshot_cache: Path | None = Field(
        default=None,
        description="Where the last good snapshot is kept for a start without any; empty is `snapshot.kept.json` beside the "
        "snapshot's file, or with `snapshot_url` in `home`.",
    )
    lane_url: str = Field(
        default="",
        description="Where the lane serves files, batches and background responses, such as http://weir-lane:8070; empty serves none.",
    )
    lane_token: str = Field(
        default="",
        repr=False,
        description="The secret of gateway and lane, 32 characters or more: the WEIR_LANE_TOKEN of the lane.",
    )
    user_hash_key: str = Field(
        default="",
        repr=False,
        description="With it users that tokens name are hashed, and texts of tenants that ask for it, the same in all gateways; "
        "without one neither is kept.",
    )
    region: str = Field(
        default="",
        description="Where this gateway's requests come from, for routing rules and demand; x-weir-region of a key that may "
        "name a region wins over it.",
    )
    gateway_name: str = Field(default="", description="What /signals calls this gateway; empty is its host and port.")
    backend_credentials_dir: Path | None = Field(
        default=None,
        description="Folder with a file for each secret of model servers, and with their certificates; empty reads secrets "
        "from WEIR_BACKEND_CREDENTIAL_<NAME> alone.",
    )
    backend_link_local: bool = Field(
        default=False,
        description="Whether model servers may have link-local addresses, where clouds have their metadata.",
    )
    tokenizers_dir: Path | None = Field(
        default=None,
        description="Folder with a folder for each tokenizer that models name; empty is `tokenizers` in `home`.",
    )
    snapshot_poll_ms: int = Field(
        default=200,
        ge=10,
        description="How often the snapshot file is looked at, ms. A stat() takes microseconds.",
    )
    otlp_endpoint: str = Field(
        default="", description="Where spans go, such as http://127.0.0.1:4318; empty sends none."
    )
    otlp_token: str = Field(
        default="", repr=False, description="Bearer token for `otlp_endpoint`: the WEIR_OTLP_TOKEN of telemetry."
    )
    otlp_interval_ms: int = Field(
        default=250,
        ge=10,
        description="How often spans are sent, ms. Keeps the live page live, and a batch worth sending.",
    )
    cors_origins: str = Field(
        default="",
        description="Origins of pages whose scripts may call the API, such as https://app.example.com, separated by commas, or `*`; "
        "empty allows none.",
    )
    metrics_token: str = Field(
        default="", description="Bearer token that may read /metrics; empty lets only callers on this machine read it."
    )
    max_body_bytes: int = Field(
        default=4 << 20,
        ge=1024,
        description="Largest request body, bytes. Several times the longest prompt any model takes.",
    )
    max_connections: int = Field(
        default=8192,
        ge=1,
        description="Most client connections at once. Past that, those that wait without a known key make room.",
    )
    read_timeout_ms: int = Field(
        default=30_000, ge=1, description="How long a client may take to send a request, ms. Stops slow-loris clients."
    )
    idle_timeout_ms: int = Field(
        default=75_000,
        ge=1,
        description="How long an idle connection is kept, ms. Above the 60 s of common load balancers.",
    )
    write_timeout_ms: int = Field(
        default=30_000,
        ge=1,
        description="How long a client may leave what was written to it unread, ms. Then it is cut off.",
    )
    max_buffered_bytes: int = Field(
        default=256 << 20,
        ge=1 << 20,
        description="Most bytes kept for all connections together, of requests being read or answered and of answers that "
        "are not read; those without a known key may hold a quarter. Past that the largest are cut off.",
    )
    lease_ms: int = Field(
        default=10_000,
        ge=300,
        description="How long requests in flight at a gateway that was killed still count against their limits, ms.",
    )
    keepalive_ms: int = Field(
        default=15_000,
        ge=10,
        description="A silent stream sends a comment this often, ms. Proxies cut silent streams at 30-60 s.",
    )
    probe_interval_ms: int = Field(default=5_000, ge=10, description="How often a healthy replica is probed, ms.")
    probe_timeout_ms: int = Field(
        default=1_000, ge=10, description="How long a probe, or an attempt to connect, may take, ms."
    )
    signals_interval_ms: int = Field(
        default=500,
        ge=50,
        description="How often a server's metrics page is read for its load, ms. Writing a page costs a server some ms.",
    )
    lame_duck_ms: int = Field(
        default=5_000,
        ge=0,
        description="On SIGTERM, how long new connections are still taken while /readyz says 503 draining, ms. As long as "
        "balancers take to see that.",
    )
    drain_timeout_ms: int = Field(
        default=18_000,
        ge=0,
        description="After that, how long requests in flight may still run and their answers be read, ms.",
    )
    termination_grace_ms: int = Field(
        default=30_000,
        ge=0,
        description="When the system kills the process after SIGTERM, ms: Kubernetes' terminationGracePeriodSeconds.",
    )

    @field_validator("redis_url")
    @classmethod
    def _is_known(cls, url: str) -> str:
        if url:
            parse(url)
        return url

    @field_validator("lane_url")
    @classmethod
    def _is_a_url(cls, url: str) -> str:
        if url:
            parse_url(url, link_local=True)
        return url

    @field_validator("cors_origins")
    @classmethod
    def _are_origins(cls, given: str) -> str:
        for origin in _listed(given):
            if not ORIGIN.fullmatch(origin):
                raise ValueError(f"{origin!r} is no origin: write scheme, host and port, without a path")
        return given

    @field_validator("snapshot_path", "snapshot_cache", "tls_certificate", "tls_key", "tls_client_ca", mode="before")
    @classmethod
    def _empty_is_none(cls, given: object) -> object:
        return None if given == "" else given  # else it is the current folder

    @model_validator(mode="after")
    def _ends_in_time(self) -> Self:
        needed_ms = self.lame_duck_ms + self.drain_timeout_ms + (FLUSH_CACHE_S + FLUSH_SPANS_S) * 1000
        if needed_ms > self.termination_grace_ms:
            raise ValueError(
                f"ending takes up to {needed_ms:.0f} ms (WEIR_LAME_DUCK_MS={self.lame_duck_ms}, "
                f"WEIR_DRAIN_TIMEOUT_MS={self.drain_timeout_ms}, and {FLUSH_CACHE_S + FLUSH_SPANS_S:g} s for the cache and "
                f"the spans), more than WEIR_TERMINATION_GRACE_MS={self.termination_grace_ms}, when the process is killed: "
                "lower the first two, or raise the last together with terminationGracePeriodSeconds"
            )
        return self

    @model_validator(mode="after")
    def _lane_is_whole(self) -> Self:
        if (self.lane_url or self.lane_token) and len(self.lane_token) < MIN_LANE_TOKEN_CHARS:
            raise ValueError(
                f"WEIR_LANE_TOKEN has {len(self.lane_token)} characters: whoever knows it acts for any tenant, so set one of "
                f"{MIN_LANE_TOKEN_CHARS} or more, here and for the lane alike, such as `openssl rand -base64 32` prints"
            )
        return self

    @model_validator(mode="after")
    def _tls_is_whole(self) -> Self:
        check_whole(self.tls_certificate, self.tls_key, self.tls_client_ca, "WEIR_TLS")
        return self

    def share_of(self, workers: int) -> Self:
        """The settings of each of several workers: what bounds all together is divided."""
        return self.model_copy(
            update={
                "max_connections": max(1, self.max_connections // workers),
                "max_buffered_bytes": max(1 << 20, self.max_buffered_bytes // workers),
            }
        )

    @property
    def connections(self) -> list[Connection]:
        """To whom the gateway speaks, but for model servers, which the snapshot names."""
        clients = reached("clients", self.gateway_host, encrypted=self.tls_certificate is not None)
        others = (
            ("Redis", self.redis_url),
            ("snapshot", self.snapshot_url),
            ("lane", self.lane_url),
            ("telemetry", self.otlp_endpoint),
        )
        return [clients, *connections(others)]

    @property
    def origins(self) -> frozenset[str]:
        return frozenset(_listed(self.cors_origins))

    @property
    def tokenizers_folder(self) -> Path:
        return self.tokenizers_dir or self.home / "tokenizers"

    @property
    def snapshot_file(self) -> Path:
        return self.snapshot_path or self.home / "snapshot.json"

    @property
    def snapshot_kept(self) -> Path:
        folder = self.snapshot_path.parent if self.snapshot_path and not self.snapshot_url else self.home
        return self.snapshot_cache or folder / "snapshot.kept.json"


class ConfigError(PermanentError, ValueError):
    """The environment cannot be understood. The message has one line per setting, with its value and the remedy."""


def _listed(text: str) -> list[str]:
    return [part for part in map(str.strip, text.split(",")) if part]


def load() -> Config:
    """Read the environment. Raises ConfigError."""
    try:
        return Config()
    except ValidationError as error:
        raise ConfigError("\n".join(map(_sentence, error.errors()))) from None


def _sentence(problem: ErrorDetails) -> str:
    if not problem["loc"]:  # settings that do not go together
        return str(problem["ctx"]["error"])
    name = str(problem["loc"][0])
    if name == "redis_url":  # which may have a password in it
        return f"WEIR_REDIS_URL is refused: {problem['ctx']['error']}"
    about = Config.model_fields[name].description
    return f"WEIR_{name.upper()}={problem['input']!r} is refused ({problem['msg'].lower()}): {about}"
