"""Settings of the telemetry process alone, beside those that it shares. docs/telemetry.md explains each."""

import os

from pydantic import Field, ValidationError

from controlplane.config import Config, ConfigError
from controlplane.telemetry.ingest.limits import MAX_RETENTION_DAYS


class IngestConfig(Config):
    """Read once, from the environment, with `WEIR_` before each name."""

    retention_days: int = Field(
        30, ge=1, le=MAX_RETENTION_DAYS, description="How long spans and request rows are kept, days."
    )
    otlp_token: str = Field(
        "",
        repr=False,
        description="What senders carry as `Authorization: Bearer …`. Empty asks for none, on loopback addresses alone.",
    )
    otlp_max_body_bytes: int = Field(
        64 * 2**20, ge=1024, description="Largest OTLP request, as sent and decompressed, bytes. OTLP's own default."
    )
    otlp_inflight_bytes: int = Field(
        192 * 2**20,
        ge=2**20,
        description="Bodies in memory at once, bytes; more is refused with 429. Bounds the receiver's memory.",
    )
    spool_max_bytes: int = Field(
        4 * 2**30,
        ge=2**20,
        description="Largest spool, bytes: minutes of full traffic for a store that is away. Then 503 until it shrinks.",
    )
    spool_reserve_bytes: int = Field(
        256 * 2**20,
        ge=0,
        description="Left free on the spool's disk, bytes: the embedded store needs room to work the spool off.",
    )
    spool_segment_bytes: int = Field(
        32 * 2**20,
        ge=4096,
        description="From this size on the spool begins a new file, bytes; files are deleted whole.",
    )
    spool_keep_s: float = Field(
        60.0,
        ge=0,
        description="How long spans stay in the spool after the store has taken them, s: for a loss of power.",
    )
    trace_quiet_s: float = Field(
        1.0,
        gt=0,
        description="A trace is closed when none of its spans came for so long, s. Later ones amend its rows.",
    )
    trace_open_s: float = Field(
        10.0,
        gt=0,
        description="A trace is closed so long after its first span at the latest, s: a kill replays this much.",
    )
    pending_bytes: int = Field(
        32 * 2**20,
        ge=2**20,
        description="Spans that wait for their trace to be complete, bytes on the wire, per pipeline; the oldest go early.",
    )
    batch_age_s: float = Field(0.75, gt=0, description="What is inserted at once waits at most so long, s.")
    batch_spans: int = Field(40_000, ge=1, description="What is inserted at once has about this many spans at most.")
    pipelines: int = Field(
        default_factory=lambda: min(64, max(1, (os.cpu_count() or 1) // 2)),
        ge=1,
        le=64,
        description="Processes that decode and close ledgers; each takes its share of the trace ids. Half the cores.",
    )
    metrics_max_series: int = Field(
        200_000,
        ge=1,
        description="Metric series active at once, in the last hour or two; further ones are refused. Bounds memory.",
    )
    scrape_targets: str = Field(
        "",
        description="Prometheus targets beside the fleet's: a JSON list, or the path of a file that holds one.",
    )
    store_port: int = Field(
        0,
        ge=0,
        le=65535,
        description="Loopback port of the embedded store; 0 picks one and writes it to `run/store-port`.",
    )


def load() -> IngestConfig:
    """Raises ConfigError, with one line per setting that cannot be used."""
    try:
        return IngestConfig()
    except ValidationError as error:
        raise ConfigError(
            "\n".join(
                f"WEIR_{str(problem['loc'][0]).upper()}={problem['input']!r} is refused ({problem['msg'].lower()}): "
                f"{IngestConfig.model_fields[str(problem['loc'][0])].description}"
                for problem in error.errors()
            )
        ) from error
