"""Every setting of the gateway: one place, with its unit, default and reason. Environment variables carry `WEIR_`
before the name.
"""

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Config(BaseSettings):
    """Read once per process, from the environment. What changes while it runs is in the policy snapshot instead."""

    model_config = SettingsConfigDict(env_prefix="WEIR_", frozen=True, extra="ignore")

    home: Path = Field(
        default=Path(".weir"), description="Where the snapshot lies unless `snapshot_path` says otherwise."
    )
    gateway_host: str = Field(
        default="127.0.0.1", description="Address to listen on. Loopback, so that opening it to others is a decision."
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
        default="", description="Bearer token that may read /metrics besides the API keys; empty allows only those."
    )
    max_body_bytes: int = Field(
        default=4 << 20,
        ge=1024,
        description="Largest request body, bytes. Several times the longest prompt any model takes.",
    )
    max_messages: int = Field(
        default=2048, ge=1, description="Most messages in one chat request. Bounds what one request can make us do."
    )
    max_connections: int = Field(
        default=8192, ge=1, description="Most client connections at once; more are closed as they come."
    )
    read_timeout_ms: int = Field(
        default=30_000, ge=1, description="How long a client may take to send a request, ms. Stops slow-loris clients."
    )
    idle_timeout_ms: int = Field(
        default=75_000,
        ge=1,
        description="How long an idle connection is kept, ms. Above the 60 s of common load balancers.",
    )
    keepalive_ms: int = Field(
        default=15_000,
        ge=10,
        description="A silent stream sends a comment this often, ms. Proxies cut silent streams at 30-60 s.",
    )
    probe_interval_ms: int = Field(
        default=5_000, ge=10, description="How often a healthy replica is asked whether its model is ready, ms."
    )
    probe_timeout_ms: int = Field(
        default=1_000, ge=10, description="How long such a question, or a connection attempt, may take, ms."
    )
    drain_timeout_ms: int = Field(
        default=30_000,
        ge=0,
        description="On SIGTERM, how long requests in flight may still run, ms. Kubernetes gives 30 s by default.",
    )

    @property
    def snapshot_file(self) -> Path:
        return self.snapshot_path or self.home / "snapshot.json"


def load() -> Config:
    return Config()
