"""What the pipeline tells the receiver about itself: one JSON object per line."""

import msgspec

from controlplane.telemetry.ingest.spool.frame import Position

NOT_REACHED = "not reached yet"
"""`store_away` of a pipeline that has not heard from the store since its own start."""


class Status(msgspec.Struct, frozen=True):
    """After a batch, when something changed, and as a sign of life. Counts are what is new since the status before."""

    checkpoint: Position = Position(0, 0)
    spans: int = 0
    requests: int = 0
    amended: int = 0
    withdrawn: int = 0
    samples: int = 0
    exemplars: int = 0
    damaged: int = 0  # stretches of the spool that could not be read
    lost_bytes: int = 0  # in them
    refused: int = 0  # records, traces, spans, rows and samples that cannot be stored: kept in refused.jsonl
    oversized: int = 0  # closings of traces with more spans than a row is made of
    newest_ns: int = 0  # end of the newest request, ns since the Unix epoch
    lag_s: float = 0.0  # from the receipt of the oldest record in the batch to its rows in the store
    pending_traces: int = 0
    store_away: str = ""  # as it is now: why the store cannot be written to, for people
    shard: int = 0


_COUNTS = ("spans", "requests", "amended", "withdrawn", "samples", "exemplars", "oversized")


def added(one: Status, other: Status) -> Status:
    """The counts of both."""
    sums = {name: getattr(one, name) + getattr(other, name) for name in _COUNTS}
    return msgspec.structs.replace(one, newest_ns=max(one.newest_ns, other.newest_ns), **sums)


encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Status).decode
