"""One pipeline process: reads from standard input how far the spool is committed, and reports on standard output what is stored."""

import os
import select
import sys
import time
from pathlib import Path

from controlplane.telemetry.ingest.otlp.decode import export_request
from controlplane.telemetry.ingest.spool import checkpoint, segment_files
from controlplane.telemetry.ingest.spool.frame import Position
from controlplane.telemetry.ingest.spool.reader import Damage, SpoolReader

from .assembly import identity
from .batch import Batch
from .closed_traces import ClosedTraces
from .fleet_names import NamesInForce
from .report import BEAT_S, Folder, Reporter
from .sink import Sink
from .status import Status
from .store_port import StoreAdapter
from .traces import Limits
from .worker import Worker


class Frontier:
    """How far the spool is committed: the last line `SEGMENT OFFSET` on a pipe."""

    def __init__(self, pipe: int) -> None:
        self._pipe, self._rest = pipe, b""
        self.position = Position(0, 0)
        self.ended = False  # the other end is closed

    def wait(self, seconds: float) -> None:
        """Wait until it moves, at most `seconds`."""
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
    folder: Path,
    dsn: str,
    snapshot: Path,
    *,
    shard: int,
    shards: int,
    limits: Limits,
    retention_days: int,
    rollup_retention_days: int,
) -> None:
    """Runs until standard input ends."""
    names = NamesInForce(snapshot)
    export_request.prepare(reading=True)
    frontier = Frontier(sys.stdin.fileno())
    reporter = Reporter(sys.stdout.fileno(), shard)
    own = Folder(folder, reporter)
    store = StoreAdapter(dsn, retention_days, rollup_retention_days)

    def lost(damage: Damage) -> None:
        if shard == 0:  # each shard reads the whole spool
            segment_files.set_aside(folder, damage.at.segment)
            reporter.send(Status(damaged=1, lost_bytes=damage.lost_bytes))

    def stored(batch: Batch, status: Status) -> None:
        if own.retry(lambda: checkpoint.save(folder, shard, shards, batch.checkpoint)):
            reporter.send(status)

    reader = SpoolReader(folder, checkpoint.load(folder, shard, shards), lost)
    untouched = reader.position == segment_files.start_of(1)  # no trace was ever closed here
    recent = ClosedTraces(folder, f"closed.{shard}-of-{shards}", 0 if untouched else time.time_ns())
    sink = Sink(store, identity(), stored, own.refuse, away=reporter.store_away, names=names, waiting=reporter.beat)
    worker = Worker(
        reader,
        sink,
        recent,
        lambda: frontier.position,
        names=names,
        shard=shard,
        shards=shards,
        limits=limits,
        retention_days=retention_days,
        refused=own.refuse,
    )
    sink.start()
    try:
        wait_s = 0.0
        while not frontier.ended:
            if not sink.alive:
                sys.exit("the writing thread ended")  # it has logged why; the parent starts this process again
            frontier.wait(min(wait_s, BEAT_S))
            wait_s = worker.step()
            reporter.beat()
    finally:
        own.end()
        sink.stop()
        reader.close()
        store.close()
        recent.close()
