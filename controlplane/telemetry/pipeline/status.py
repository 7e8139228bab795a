"""What the pipeline tells the receiver about itself: one JSON object per line."""

import msgspec

from controlplane.telemetry.spool.frame import Position


class Status(msgspec.Struct, frozen=True):
    """After a batch, or (without counts) when something changed. Counts are of this batch alone."""

    checkpoint: Position = Position(0, 0)
    spans: int = 0
    requests: int = 0
    amended: int = 0
    withdrawn: int = 0
    samples: int = 0
    exemplars: int = 0
    newest_ns: int = 0  # end of the newest request, ns since the Unix epoch
    lag_s: float = 0.0  # from the receipt of the oldest record in the batch to its rows in the store
    pending_traces: int = 0
    store_away: str = ""  # why the store cannot be written to, for people
    shard: int = 0


encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Status).decode
