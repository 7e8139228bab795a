"""Every setting of the control plane: one place, with its unit, default and reason. Environment variables carry `WEIR_` before the name."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Config(BaseSettings):
    """Read once per process, from the environment. The defaults are those of one machine."""

    model_config = SettingsConfigDict(env_prefix="WEIR_", frozen=True, extra="ignore")

    home: Path = Field(Path(".weir"), description="Where embedded parts keep their data, and where secrets lie (mode 0600).")
    debug: bool = Field(False, description="Django's debug pages. Never outside a developer's machine.")
    allowed_hosts: list[str] = Field(["localhost", "127.0.0.1", "[::1]"], description="Host names the dashboard answers to.")
    secret_key: str = Field("", description="Django's signing key; empty reads (or makes) `secret-key` in `home`.")
    database_url: str = Field("", description="sqlite:///PATH or postgres://…; empty is SQLite in `home`.")
    redis_url: str = Field("redis://127.0.0.1:6379/0", description="Channel layer, Celery broker, gateway cache.")
    store_dsn: str = Field("", description="clickhouse://user:password@host:port/database, embedded or a cluster.")
    otlp_http_port: int = Field(4318, description="OTLP over HTTP.")
    otlp_grpc_port: int = Field(4317, description="OTLP over gRPC.")
    otlp_host: str = Field("127.0.0.1", description="Address the OTLP receivers bind to.")
    otlp_endpoint: str = Field("", description="Where this process sends its own spans, such as http://127.0.0.1:4318; empty sends none.")
    snapshot_path: Path | None = Field(None, description="The policy snapshot file; empty is `snapshot.json` in `home`.")
    retention_days: int = Field(30, description="How long spans and request rows are kept, days.")

    @property
    def snapshot_file(self) -> Path:
        return self.snapshot_path or self.home / "snapshot.json"


def load() -> Config:
    return Config()
