"""The launcher's options, from environment variables that start with `WEIR_`."""

from pathlib import Path

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from deploy.local.errors import CannotRunError


class Options(BaseSettings):
    """Read once, at the start. Parts inherit the environment, and have settings of their own."""

    model_config = SettingsConfigDict(env_prefix="WEIR_", frozen=True, extra="ignore")

    home: Path = Field(default=Path(".weir"), description="Where data, secrets and logs lie.")
    web_port: int = Field(default=8000, ge=1, le=65535, description="Dashboard and API.")
    gateway_port: int = Field(default=8080, ge=1, le=65535, description="OpenAI-compatible API.")
    otlp_http_port: int = Field(default=4318, ge=1, le=65535, description="OTLP over HTTP.")
    otlp_grpc_port: int = Field(default=4317, ge=1, le=65535, description="OTLP over gRPC.")
    triton_replicas: int = Field(
        default=2, ge=1, le=8, description="Tritons, each with both models. Two show what losing one does."
    )
    traffic_rps: float = Field(
        default=2.5, ge=0, le=50, description="Generated requests per second on average; 0 generates none."
    )
    redis_url: str = Field(default="", description="A Redis 8 of your own; empty starts one.")
    store_dsn: str = Field(default="", description="A ClickHouse of your own; empty embeds one.")

    @property
    def public_ports(self) -> dict[str, int]:
        """By the variable that sets each."""
        return {
            "WEIR_WEB_PORT": self.web_port,
            "WEIR_GATEWAY_PORT": self.gateway_port,
            "WEIR_OTLP_HTTP_PORT": self.otlp_http_port,
            "WEIR_OTLP_GRPC_PORT": self.otlp_grpc_port,
        }


def read() -> Options:
    """The options from the environment, with an absolute home. Raises CannotRunError."""
    try:
        options = Options()
    except ValidationError as error:
        problem = error.errors()[0]
        name = f"WEIR_{str(problem['loc'][0]).upper()}"
        raise CannotRunError(f"{name}={problem['input']!r} is refused: {problem['msg'].lower()}") from None
    return options.model_copy(update={"home": options.home.expanduser().resolve()})
