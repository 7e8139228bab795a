"""The status that a pipeline reports to the receiver: one JSON object per line."""

import msgspec

from controlplane.telemetry.ingest.spool.frame import Position

NOT_REACHED = "not reached yet"
"""`store_away` of a pipeline that has not reached the store since its start."""


class Status(msgspec.Struct, frozen=True):
    """Sent after a batch, at a change, and at least every second. Counts are those since the previous status."""

    checkpoint: Position = Position(0, 0)
    spans: int = 0
    requests: int = 0
    withdrawn: int = 0
    samples: int = 0
    damaged: int = 0  # stretches of the spool that could not be read
    lost_bytes: int = 0  # in them
    refused: int = 0  # records, traces, spans, rows and samples that cannot be stored: kept in refused.jsonl
    oversized: int = 0  # closings of traces with more spans than a row is made of
    newest_ns: int = 0  # end of the newest request, ns since the Unix epoch
    lag_s: float = 0.0  # from the receipt of the oldest record in the batch to its rows in the store
    store_away: str = ""  # why the store cannot be written to now
    shard: int = 0


COUNTS = ("spans", "requests", "withdrawn", "samples", "damaged", "lost_bytes", "refused", "oversized")
"""Fields that are sums over statuses."""


def added(status: Status, other: Status) -> Status:
    """`status` with the sums of both counts."""
    sums = {name: getattr(status, name) + getattr(other, name) for name in COUNTS}
    return msgspec.structs.replace(status, newest_ns=max(status.newest_ns, other.newest_ns), **sums)


encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Status).decode
