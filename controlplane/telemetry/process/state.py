"""The state of the telemetry process, as readiness and as metrics for Prometheus."""

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ..core.spans import ROW_SPANS
from ..ingest.otlp.receiver import Receiver
from ..ingest.pipeline.status import NOT_REACHED, Status, added
from ..ingest.spool.frame import Position
from ..ingest.spool.writer import SpoolWriter
from .children import Child
from .rollups import Progress

HUNG_S, HUNG_AT_START_S = 60.0, 300.0
"""After so long without a status a pipeline is killed and started again, s. At its start, while it loads and compiles, it has longer."""
CATCHING_UP_S = 10.0
"""Records older than this are a backlog, s: a trace waits up to 10 s for its last spans."""

_SUMS = {
    "spans": ("weir_ingest_stored_spans", "Spans inserted."),
    "requests": ("weir_ingest_stored_requests", "Request rows inserted."),
    "samples": ("weir_ingest_stored_samples", "Metric samples inserted."),
    "withdrawn": (
        "weir_ingest_withdrawn_requests", "Rows withdrawn because later spans showed them to be part of a request."
    ),
    "refused": (
        "weir_ingest_refused_items",
        "Records, traces, spans, rows and samples that cannot be stored, kept in refused.jsonl.",
    ),
    "oversized": (
        "weir_ingest_oversized_traces",
        f"Closings of traces with more than {ROW_SPANS} spans, whose rows are made of the earliest.",
    ),
    "damaged": (
        "weir_spool_damaged_records", "Parts of the spool that could not be read, with one or more records each."
    ),
    "lost_bytes": ("weir_spool_lost_bytes", "Bytes of the spool that could not be read."),
}  # fmt: skip
"""The metrics of sums over statuses, by their fields."""


@dataclass
class Shard:
    """The last status of a pipeline process, and the sums of all its statuses."""

    checkpoint: Position
    store_away: str = NOT_REACHED
    reached: bool = False  # the store has answered once
    away_since_s: float = field(default_factory=time.monotonic)
    moved_s: float = field(default_factory=time.monotonic)  # when it last had something in the store
    status_s: float = -math.inf  # when it last sent a status
    lag_s: float = 0.0
    sums: Status = field(default_factory=Status)

    def take(self, status: Status) -> None:
        self.status_s = time.monotonic()
        if self.reached and status.store_away == NOT_REACHED:  # it was started again and has not reached the store yet
            status = msgspec.structs.replace(status, store_away=self.store_away)
        if bool(status.store_away) != bool(self.store_away):
            self.away_since_s = time.monotonic()
        self.store_away = status.store_away
        self.reached = self.reached or not status.store_away
        if status.checkpoint.segment:
            self.moved_s = time.monotonic()
            self.checkpoint, self.lag_s = status.checkpoint, status.lag_s
        self.sums = added(self.sums, status)


class Commits:
    """Times of commits, from which the age of the oldest record follows that is not worked off yet."""

    def __init__(self, every_s: float = 0.5) -> None:
        self._every_s, self._marks = every_s, deque[tuple[float, Position]]()

    def add(self, position: Position, now_s: float) -> None:
        """Note a commit. Commits within `every_s` share one mark."""
        if self._marks and now_s - self._marks[-1][0] < self._every_s:
            now_s = self._marks.pop()[0]
        self._marks.append((now_s, position))

    def begin(self, age_s: float, position: Position, now_s: float) -> None:
        """Note that everything before `position` is at most this old. Call it for the records of an earlier run first, in order."""
        self._marks.append((now_s - age_s, position))

    def behind_s(self, done: Position, now_s: float) -> float:
        while self._marks and self._marks[0][1] <= done:
            self._marks.popleft()
        return now_s - self._marks[0][0] if self._marks else 0.0


@dataclass(eq=False)
class State:
    """`stalled_s` is `IngestConfig.stalled_s`. A pipeline sends a status every second. A store that hangs refuses nothing, and a statement
    may take a minute until it times out, so the store counts as away when nothing was stored for so long although records wait.
    """

    receiver: Receiver
    spool: SpoolWriter
    shards: list[Shard]
    commits: Commits = field(default_factory=Commits)
    children: Callable[[], Sequence[Child]] = lambda: ()
    pipelines: Sequence[Child] = ()  # in order of shards
    stalled_s: float = 15.0
    rollups: Callable[[], Progress] = Progress

    @property
    def done(self) -> Position:
        """The position before which every shard has stored everything."""
        return min(shard.checkpoint for shard in self.shards)

    @property
    def behind_s(self) -> float:
        return self.commits.behind_s(self.done, time.monotonic())

    @property
    def away(self) -> tuple[str, float] | None:
        """Why the store takes nothing, and for how long, s. None where it does."""
        now_s = time.monotonic()
        refused = [shard for shard in self.shards if shard.store_away]
        if refused:
            return refused[0].store_away, now_s - min(shard.away_since_s for shard in refused)
        if not all(shard.reached for shard in self.shards):
            return None  # it is starting
        stuck_s = min(self.behind_s, now_s - min(shard.moved_s for shard in self.shards))
        return (f"nothing was stored for {stuck_s:.0f} s", stuck_s) if stuck_s > self.stalled_s else None

    def silent_s(self, number: int) -> float:
        """The time since a pipeline's last status or start, s."""
        started_s = self.pipelines[number].started_s if number < len(self.pipelines) else 0.0
        return time.monotonic() - max(self.shards[number].status_s, started_s)

    def hung(self) -> list[Child]:
        """The pipelines that must be killed."""
        return [
            child
            for number, child in enumerate(self.pipelines)
            if self.silent_s(number) > (HUNG_S if self.shards[number].status_s > child.started_s else HUNG_AT_START_S)
        ]

    @property
    def stuck(self) -> str:
        """The fault of a child because of which records are not worked off. Empty where there is none."""
        for child in self.children():
            if child.keeps_ending:
                return f"{child.name} keeps ending ({child.restarts} restarts): its errors are in the log, before child.died"
        for number, child in enumerate(self.pipelines):
            if (silent_s := self.silent_s(number)) > self.stalled_s:
                return f"{child.name} has sent no status for {silent_s:.0f} s"
        return ""

    @property
    def catching_up(self) -> bool:
        """Whether a backlog is worked off without a fault, so that the newest requests are not in the ledger yet."""
        return not self.away and not self.stuck and self.behind_s > CATCHING_UP_S

    def readiness(self) -> tuple[bool, dict[str, object]]:
        """Whether it takes spans, works them off and has reached the store once, with details. A store that goes away changes nothing."""
        away = self.away
        starting = not all(shard.reached for shard in self.shards)
        refusal, stuck = self.spool.refusal(), self.stuck
        details: dict[str, object] = {
            "receiving": f"refusing: {refusal}" if refusal else "ok",
            "store": "starting" if starting else "away" if away else "ok",
            "work": stuck or ("catching up" if self.catching_up else "ok"),
            "spool_bytes": self.spool.backlog,
            "behind_s": round(self.behind_s, 1),
            "rollups": self.rollups().text,
        }
        if away and not starting:
            details["store_away_s"] = round(away[1], 1)
            details["store_reason"] = away[0][:200]
        if reason := refusal or stuck or ("it has not reached its store yet" if starting else ""):
            details["reason"] = reason
        return not reason, details

    def collect(self) -> Iterator[Metric]:
        """The method of prometheus_client's collectors."""
        receiver, rollups = self.receiver, self.rollups()
        labelled: tuple[tuple[str, str, list[str], Mapping[Any, int]], ...] = (
            ("weir_ingest_requests", "OTLP requests answered.", ["transport", "outcome"], receiver.counts.requests),
            ("weir_ingest_rejected_spans", "Spans refused one by one.", ["reason"], receiver.counts.rejected),
            ("weir_ingest_rejected_samples", "Metric samples refused.", ["reason"], receiver.metrics.rejected),
            (
                "weir_ingest_child_restarts", "Processes started again.", ["child"],
                {child.name: child.restarts for child in self.children()},
            ),
        )  # fmt: skip
        for name, said, labels, numbers in labelled:
            family = CounterMetricFamily(name, said, labels=labels)
            for values, number in sorted(numbers.items()):
                family.add_metric([values] if isinstance(values, str) else values, number)
            yield family
        sums = reduce(added, [shard.sums for shard in self.shards])
        for field_name, (name, said) in _SUMS.items():
            yield CounterMetricFamily(name, said, getattr(sums, field_name))
        yield CounterMetricFamily("weir_rollup_built_stretches", "Stretches of rollups built.", rollups.built)
        silent_s = max(map(self.silent_s, range(len(self.pipelines))), default=0.0)
        gauges: tuple[tuple[str, str, float], ...] = (
            ("weir_ingest_active_series", "Metric series of the last hour or two.", len(receiver.metrics.admission)),
            ("weir_ingest_silent_seconds", "Time since the last status of the pipeline that was silent longest.", silent_s),
            ("weir_ingest_catching_up", "1 while a backlog is worked off.", self.catching_up),
            ("weir_ingest_inflight_bytes", "Bodies in memory.", receiver.inflight),
            ("weir_ingest_lag_seconds", "From receipt to rows, of the last batch.", max(s.lag_s for s in self.shards)),
            ("weir_ingest_behind_seconds", "Age of the oldest record not worked off.", self.behind_s),
            ("weir_spool_bytes", "Spool on disk.", self.spool.size),
            ("weir_spool_backlog_bytes", "Spool that is not in the store yet.", self.spool.backlog),
            ("weir_spool_accepting", "1 while the spool accepts records.", not self.spool.refusal()),
            ("weir_rollup_catching_up", "1 while rollups of the past are filled.", rollups.backlog > 0),
            ("weir_rollup_done_ratio", "How much of that is filled, 0 to 1.", rollups.done_ratio),
            ("weir_store_reachable", "1 while the store takes inserts.", self.away is None),
        )  # fmt: skip
        for gauge in gauges:
            yield GaugeMetricFamily(*gauge)
