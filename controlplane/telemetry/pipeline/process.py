"""One pipeline process: told on standard input how far the spool is committed, it reports on standard output what is stored."""

import os
import select
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import structlog

from controlplane.telemetry.otlp import decode
from controlplane.telemetry.spool import checkpoint, segments
from controlplane.telemetry.spool.frame import Position
from controlplane.telemetry.spool.reader import SpoolReader

from .batch import Batch
from .recent import Recent
from .sink import Sink
from .status import Status, encode
from .store import StoreAdapter
from .traces import Limits
from .worker import BatchLimits, Worker

log = structlog.get_logger(__name__)

REFUSED_FILE = "refused.jsonl"


class Frontier:
    """How far the spool is committed, as the lines `SEGMENT OFFSET` on a pipe say; the last one counts."""

    def __init__(self, pipe: int) -> None:
        self._pipe, self._rest = pipe, b""
        self.position = Position(0, 0)
        self.ended = False  # the other end is gone

    def wait(self, seconds: float) -> None:
        """Until it moves, or for so long."""
        ready, _, _ = select.select([self._pipe], [], [], seconds)
        if not ready:
            return
        data = os.read(self._pipe, 65536)
        self.ended = not data
        *lines, self._rest = (self._rest + data).split(b"\n")
        if lines:
            segment, offset = lines[-1].split()
            self.position = Position(int(segment), int(offset))


def run(
    folder: Path, dsn: str, *, shard: int, shards: int, limits: Limits, batches: BatchLimits, retention_days: int
) -> None:
    """Until standard input ends."""
    decode.prepare()
    frontier = Frontier(sys.stdin.fileno())
    store = StoreAdapter(dsn, retention_days)
    reader = SpoolReader(folder, checkpoint.load(folder, shard, shards))

    untouched = reader.position == segments.start_of(1)  # nothing was ever closed here
    recent = Recent(folder, f"closed.{shard}-of-{shards}", 0 if untouched else time.time_ns())

    def report(status: Status) -> None:
        line = encode(msgspec.structs.replace(status, shard=shard, pending_traces=worker.pending_traces)) + b"\n"
        os.write(sys.stdout.fileno(), line)

    def stored(batch: Batch, status: Status) -> None:
        checkpoint.save(folder, shard, shards, batch.checkpoint)
        report(status)

    def refused(items: Sequence[object], reason: str) -> None:
        with (folder / REFUSED_FILE).open("ab") as file:
            file.writelines(msgspec.json.encode({"reason": reason, "refused": item}) + b"\n" for item in items)

    sink = Sink(store, stored, refused, away=lambda reason: report(Status(store_away=reason)))
    worker = Worker(
        reader, sink, recent, lambda: frontier.position, shard=shard, shards=shards, limits=limits, batches=batches
    )
    sink.start()
    try:
        wait_s = 0.0
        while not frontier.ended:
            if not sink.alive:
                sys.exit("the writing thread ended")  # and said why; we are started again
            frontier.wait(wait_s)
            wait_s = worker.step()
    finally:
        sink.stop()
        reader.close()
        store.close()
        recent.close()
