"""Settings of the telemetry process. docs/telemetry.md explains each."""

import os
from pathlib import Path

from pydantic import Field

from controlplane.config import Config, OptionalUrl


class IngestConfig(Config):
    """Read once, from the environment, with `WEIR_` before each name."""

    otlp_token: str = Field(
        "",
        repr=False,
        description="Token that senders must send as `Authorization: Bearer …`. Empty allows senders on loopback addresses only.",
    )
    otlp_certificate: Path | None = Field(
        None,
        description="PEM chain with which both receivers speak TLS, read again when it changes; empty takes plain text. "
        "WEIR_TELEMETRY_URL then names a host of the certificate.",
    )
    otlp_key: Path | None = Field(None, description="PEM key of that certificate, without a password.")
    otlp_client_ca: Path | None = Field(
        None,
        description="PEM certificates; senders must have one signed by them, and then need no token where none is set.",
    )
    otlp_max_body_bytes: int = Field(
        64 * 2**20, ge=1024, description="Largest OTLP request, as sent and decompressed, bytes. OTLP's own default."
    )
    otlp_inflight_bytes: int = Field(
        192 * 2**20,
        ge=2**20,
        description="Bodies in memory at once, bytes. More is refused with 429, which bounds the receiver's memory.",
    )
    spool_max_bytes: int = Field(
        4 * 2**30,
        ge=2**20,
        description="Largest spool, bytes: some minutes of full traffic while the store is away. Above it, 503 until it shrinks.",
    )
    spool_reserve_bytes: int = Field(
        256 * 2**20,
        ge=0,
        description="Space left free on the spool's disk, bytes: the embedded store needs it to work off the spool.",
    )
    spool_segment_bytes: int = Field(
        32 * 2**20,
        ge=4096,
        description="Size from which the spool begins a new file, bytes. Files are deleted as a whole.",
    )
    trace_quiet_s: float = Field(
        1.0,
        gt=0,
        description="A trace is closed when no span of it came for so long, s. Later spans amend its rows.",
    )
    trace_root_s: float = Field(
        7.0,
        gt=0,
        description="The same while the trace's root is missing, s: other processes' exporters send every 5 s.",
    )
    trace_open_s: float = Field(
        10.0,
        gt=0,
        description="A trace is closed so long after its first span at the latest, s. A kill repeats this much.",
    )
    stalled_s: float = Field(
        15.0,
        gt=0,
        description="A pipeline that sends no status, or a store that takes nothing, for so long counts as hanging, s.",
    )
    rollup_every_s: float = Field(
        5.0, gt=0, le=300, description="How often it is looked which stretches of the ledger must be rolled up, s."
    )
    pipelines: int = Field(
        default_factory=lambda: min(64, max(1, (os.cpu_count() or 1) // 2)),
        ge=1,
        le=64,
        description="Processes that decode spans and close ledgers, each for its share of the trace ids. Default: half the cores.",
    )
    metrics_max_series: int = Field(
        200_000,
        ge=1,
        description="Metric series active in the last hour or two. Further ones are refused, which bounds memory.",
    )
    scrape_targets: str = Field(
        "",
        description="Prometheus targets beside the fleet's: a JSON list, or the path of a file with one.",
    )
    snapshot_url: OptionalUrl = Field(
        "",
        description="Where web serves the policy snapshot, such as http://weir-web:8000/internal/snapshot, and scrape targets beside it; "
        "empty reads the files that web writes on the same machine.",
    )
    store_port: int = Field(
        0,
        ge=0,
        le=65535,
        description="Loopback port of the embedded store. 0 chooses a free one and writes it to `run/store-port`.",
    )
