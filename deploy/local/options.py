"""The launcher's options, from environment variables that start with `WEIR_`."""

from pathlib import Path

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from deploy.local import fleet
from deploy.local.errors import CannotRunError
from deploy.local.ports import LOOPBACK
from inference.contract.address import Url, parse_base_url

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1", "0.0.0.0")  # noqa: S104  (what people write, not what is bound)


class Options(BaseSettings):
    """Read once, at the start. Parts inherit the environment, and have settings of their own."""

    model_config = SettingsConfigDict(env_prefix="WEIR_", frozen=True, extra="ignore")

    home: Path = Field(default=Path(".weir"), description="Where data, secrets and logs lie.")
    web_port: int = Field(default=8000, ge=1, le=65535, description="Dashboard and API.")
    gateway_port: int = Field(default=8080, ge=1, le=65535, description="OpenAI-compatible API.")
    otlp_http_port: int = Field(default=4318, ge=1, le=65535, description="OTLP over HTTP.")
    otlp_grpc_port: int = Field(default=4317, ge=1, le=65535, description="OTLP over gRPC.")
    triton_replicas: int = Field(
        default=2,
        ge=1,
        le=8,
        description="Tritons of each demo chat model's pool at the start. Two show what losing one does.",
    )
    replica_slots: int = Field(
        default=0,
        ge=0,
        le=64,
        description="Tritons at once, of all pools: a replica without a slot is pending; 0 is four more than there are at the start.",
    )
    demo_policies: bool = Field(
        default=True, description="Whether the demo's policies come into force at the first start of a home."
    )
    traffic_rps: float = Field(
        default=2.5, ge=0, le=50, description="Generated requests per second on average; 0 generates none."
    )
    backend_url: str = Field(
        default="",
        description="Base URLs of servers with OpenAI's API, such as http://127.0.0.1:8000/v1, separated by commas. Weir serves "
        "their models, and starts neither demo models nor traffic; empty starts both.",
    )
    backend_api_key: str = Field(default="", description="The key that those servers want; empty sends none.")
    tls_certificate: str = Field(default="", description="The gateway's certificate, if it speaks TLS.")
    tls_client_ca: str = Field(default="", description="Must be empty: the launcher's parts have no certificates.")
    redis_url: str = Field(default="", description="A Redis 8 of your own; empty starts one.")
    store_dsn: str = Field(default="", description="A ClickHouse of your own; empty embeds one.")

    @property
    def backend_urls(self) -> list[str]:
        return [url.strip().rstrip("/") for url in self.backend_url.split(",") if url.strip()]

    @property
    def gateway_url(self) -> str:
        """What other parts call. A certificate is for a name, not for an address."""
        return (
            f"https://localhost:{self.gateway_port}"
            if self.tls_certificate
            else f"http://{LOOPBACK}:{self.gateway_port}"
        )

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
    at_start = fleet.at_start(options.triton_replicas)
    if 0 < options.replica_slots < at_start:
        raise CannotRunError(
            f"WEIR_REPLICA_SLOTS={options.replica_slots} is refused: with WEIR_TRITON_REPLICAS={options.triton_replicas} the "
            f"pools start with {at_start} in all, so give at least {at_start}"
        )
    if options.tls_client_ca:
        raise CannotRunError(
            f"WEIR_TLS_CLIENT_CA={options.tls_client_ca!r} lets only clients with a certificate in, and the parts that call the "
            "gateway here have none: leave it out, or start the gateway by itself"
        )
    changes: dict[str, object] = {
        "home": options.home.expanduser().resolve(),
        "replica_slots": options.replica_slots or at_start + 4,
    }
    if "web_port" not in options.model_fields_set:
        changes["web_port"] = _beside(options.web_port, options.backend_urls)
    return options.model_copy(update=changes)


def _beside(port: int, urls: list[str]) -> int:
    """The port, or the next that none of the servers at `urls` has: a model server on this machine often has 8000 too."""
    own = {url.port for url in map(_local_url, urls) if url}
    while port in own:
        port += 1
    return port


def _local_url(text: str) -> Url | None:
    """The URL where it is on this machine; None where it is not, or is none."""
    try:
        url = parse_base_url(text)
    except ValueError:
        return None
    return url if url.host in LOOPBACK_HOSTS else None
