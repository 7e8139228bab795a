"""Settings of the lane. docs/batches.md explains them."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator
from pydantic_settings import NoDecode

from controlplane.config import Config, OptionalSecret, Port
from controlplane.incidents.notify.delivery.core.outbound_address import allowed


class LaneConfig(Config):
    """Read once, from the environment, with `WEIR_` before each name."""

    lane_host: str = Field("127.0.0.1", description="Address on which the lane answers the gateway.")
    lane_port: Port = Field(8070, description="Port on which the lane answers the gateway; 0 takes a free one.")
    lane_certificate: Path | None = Field(
        None,
        description="PEM chain with which the lane speaks TLS, read again when it changes; empty takes plain text.",
    )
    lane_key: Path | None = Field(None, description="PEM key of that certificate, without a password.")
    lane_token: OptionalSecret = Field(
        "",
        repr=False,
        description="The secret of gateway and lane, which must be the same for both; empty refuses to start.",
    )
    lane_objects: str = Field(
        "",
        description="Where files are, the same for all lanes: a folder, or `s3://BUCKET/PREFIX`; empty is `lane` in `home`.",
    )
    lane_concurrency: int = Field(
        128,
        ge=0,
        le=1024,
        description="Lines in flight at a time, at most, and as many more that somebody waits for; 0 serves the API alone.",
    )

    lane_lease_s: float = Field(
        30.0,
        ge=2,
        le=600,
        description="How long the lines of a worker that gives no sign of life stay its own, s. It renews this every second.",
    )

    lane_callback_allow: Annotated[list[str], NoDecode] = Field(
        [],
        description="Private networks, addresses and host names that tenants may have webhooks sent to, separated by commas; "
        "plain http too. All others must be https and public.",
    )

    lane_kafka: str = Field(
        "",
        description="Brokers of Kafka whose records become jobs, HOST:PORT separated by commas; empty is none. Needs the extra `kafka`.",
    )
    lane_kafka_jobs: str = Field("weir.jobs", description="Topic whose records become jobs.")
    lane_kafka_results: str = Field("weir.results", description="Topic that gets their results.")
    lane_kafka_key: str = Field(
        "", repr=False, description="API key of the gateway with which jobs of the topic are made and run."
    )
    lane_kafka_protocol: Literal["SASL_SSL", "SSL", "SASL_PLAINTEXT", "PLAINTEXT"] = Field(
        "SASL_SSL", description="How the brokers are spoken to. SASL is SCRAM-SHA-512."
    )
    lane_kafka_user: str = Field("", description="User at the brokers.")
    lane_kafka_password: str = Field("", repr=False, description="Its password.")

    @field_validator("lane_callback_allow", mode="before")
    @classmethod
    def _split_callback_allow(cls, value: object) -> object:
        parts = [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value
        if isinstance(parts, list):
            allowed(parts)
        return parts

    @property
    def objects_at(self) -> str:
        return self.lane_objects or str(self.home / "lane")
