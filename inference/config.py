"""The gateway's settings, each with its unit, default and reason. Environment variables have the prefix `WEIR_`."""

from pathlib import Path
from typing import Self

from pydantic import Field, ValidationError, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict

from inference.core.errors import PermanentError

FLUSH_CACHE_S, FLUSH_SPANS_S = 1.0, 5.0
"""When the process ends, how long the last writes to the cache and the last spans may take."""


class Config(BaseSettings):
    """Read once per process, from the environment. Whatever changes while it runs is in the policy snapshot."""

    model_config = SettingsConfigDict(env_prefix="WEIR_", frozen=True, extra="ignore")

    home: Path = Field(
        default=Path(".weir"), description="Where the snapshot lies unless `snapshot_path` says otherwise."
    )
    gateway_host: str = Field(
        default="127.0.0.1", description="Address to listen on. The default takes connections from this machine only."
    )
    gateway_port: int = Field(
        default=8080, ge=0, le=65535, description="Port to listen on; 0 takes a free one and logs it."
    )
    redis_url: str = Field(
        default="redis://127.0.0.1:6379/0",
        description="The answer cache: redis://, rediss:// (TLS) or unix://; empty serves without a cache.",
    )
    snapshot_path: Path | None = Field(
        default=None, description="The policy snapshot file; empty is `snapshot.json` in `home`."
    )
    snapshot_poll_ms: int = Field(
        default=200,
        ge=10,
        description="How often the snapshot file is looked at, ms. A stat() takes microseconds.",
    )
    otlp_endpoint: str = Field(
        default="", description="Where spans go, such as http://127.0.0.1:4318; empty sends none."
    )
    otlp_gzip: bool = Field(default=False, description="Compress spans. Off: on one machine it only costs CPU.")
    otlp_interval_ms: int = Field(
        default=250,
        ge=10,
        description="How often spans are sent, ms. Keeps the live page live, and a batch worth sending.",
    )
    otlp_queue: int = Field(
        default=20_000,
        ge=1,
        description="Traces kept while the receiver is away (about 1 kB each); more are dropped and counted.",
    )
    metrics_token: str = Field(
        default="", description="Bearer token that may read /metrics; empty lets only callers on this machine read it."
    )
    max_body_bytes: int = Field(
        default=4 << 20,
        ge=1024,
        description="Largest request body, bytes. Several times the longest prompt any model takes.",
    )
    max_messages: int = Field(
        default=2048, ge=1, description="Most messages in one chat request. Bounds the work of one request."
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
    keepalive_ms: int = Field(
        default=15_000,
        ge=10,
        description="A silent stream sends a comment this often, ms. Proxies cut silent streams at 30-60 s.",
    )
    probe_interval_ms: int = Field(default=5_000, ge=10, description="How often a healthy replica is probed, ms.")
    probe_timeout_ms: int = Field(
        default=1_000, ge=10, description="How long a probe, or an attempt to connect, may take, ms."
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

    @property
    def snapshot_file(self) -> Path:
        return self.snapshot_path or self.home / "snapshot.json"


class ConfigError(PermanentError, ValueError):
    """The environment cannot be understood. The message has one line per setting, with its value and the remedy."""


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
    about = Config.model_fields[name].description
    return f"WEIR_{name.upper()}={problem['input']!r} is refused ({problem['msg'].lower()}): {about}"
