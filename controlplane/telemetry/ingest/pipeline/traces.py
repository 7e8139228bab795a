"""Groups incoming spans by trace, and decides when a trace is complete. Callers pass the time."""

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass

from controlplane.telemetry.core.spans import ROW_SPANS, Span
from controlplane.telemetry.ingest.otlp.decode.columnar import Part, Spans
from controlplane.telemetry.ingest.spool.frame import Position
from controlplane.telemetry.store.write.keys import RequestKey

_MAX_LARGE = 10_000  # remembered


@dataclass(frozen=True, slots=True)
class Limits:
    """When a trace is closed, and how long its spans are kept afterwards."""

    quiet_s: float = 1.0  # after its last span: exporters send the spans of a trace within less
    root_s: float = 7.0  # the same, while its root is missing: exporters of other processes send every 5 s
    open_s: float = 10.0  # after its first span at the latest: the checkpoint waits for it
    kept_s: float = 30.0  # after it was closed, so that it is closed again with late spans without reading the store
    pending_bytes: int = 32 * 2**20  # of bodies whose spans wait; they take about ten times that in memory
    kept_bytes: int = 16 * 2**20  # of bodies whose spans are kept; they take about five times that
    trace_spans: int = ROW_SPANS  # a larger trace is closed with its spans in the store, once every `open_s` at most


class OpenTrace:
    __slots__ = (
        "bytes", "count", "earliest_ns", "first", "large", "opened_s", "parts", "received_ns", "requests", "rooted", "touched",
    )  # fmt: skip

    def __init__(self, first: Position, opened_s: float, received_ns: int) -> None:
        self.first, self.opened_s, self.received_ns = first, opened_s, received_ns
        self.parts: list[tuple[Spans, Part]] = []
        self.earliest_ns = 2**63
        self.bytes = self.count = 0
        self.touched = -1
        self.rooted = False
        self.large = False  # its spans are not held here
        self.requests: frozenset[RequestKey] | None = (
            None  # of its rows, where it was closed before and all its spans are here
        )

    def spans(self) -> list[Span]:
        if len(self.parts) == 1:
            spans, part = self.parts[0]
            return spans.of(part)
        return [span for spans, part in self.parts for span in spans.of(part)]


class Traces:
    """Open traces, and closed ones that are kept for late spans. A trace is due when no span came for `quiet_s` (`root_s` without a root),
    after `open_s`, or when memory is short (the oldest first)."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: dict[bytes, OpenTrace] = {}  # in order of first arrival
        self._rounds: deque[tuple[float, list[bytes]]] = deque()  # which traces were touched when
        self._rootless: deque[tuple[float, bytes, int]] = (
            deque()
        )  # which quiet ones are due when, and the round that touched them last
        self._round = 0
        self._kept: OrderedDict[bytes, tuple[float, OpenTrace]] = OrderedDict()  # by when they were closed
        self._kept_bytes = 0
        self._large: dict[bytes, None] = {}  # traces that were too large, the latest last
        self.bytes = 0

    def add(self, spans: Spans, at: Position, now_s: float, received_ns: int = 0) -> None:
        """Take spans of the record that begins at `at` and was received at `received_ns` since the Unix epoch."""
        self._round += 1
        touched: list[bytes] = []
        for part in spans.parts():
            trace_id, first, last, size, earliest_ns, rooted = part
            trace = self._open.get(trace_id)
            if trace is None:
                trace = self._open[trace_id] = self._again(trace_id, at, now_s) or OpenTrace(at, now_s, received_ns)
                trace.large = trace_id in self._large
            if earliest_ns < trace.earliest_ns:
                trace.earliest_ns = earliest_ns
            trace.count += last - first
            if trace.large:
                continue
            if trace.count > self._limits.trace_spans:
                self._too_large(trace_id, trace)
                continue
            trace.parts.append((spans, part))
            trace.rooted = trace.rooted or rooted
            trace.bytes += size
            self.bytes += size
            trace.touched = self._round
            touched.append(trace_id)
        self._rounds.append((now_s, touched))

    def due(self, now_s: float) -> list[tuple[bytes, OpenTrace]]:
        """Remove and return the traces that are due."""
        limits, quiet = self._limits, dict[bytes, None]()
        while self._rounds and self._rounds[0][0] <= now_s - limits.quiet_s:
            ended = self._round - len(self._rounds) + 1
            touched_s, touched = self._rounds.popleft()
            for key in touched:
                trace = self._open.get(key)
                if trace is None or trace.touched != ended:
                    continue
                if trace.rooted or limits.root_s <= limits.quiet_s:
                    quiet[key] = None
                else:
                    self._rootless.append((touched_s + limits.root_s, key, ended))
        while self._rootless and self._rootless[0][0] <= now_s:
            _, key, ended = self._rootless.popleft()
            trace = self._open.get(key)
            if trace is not None and trace.touched == ended:
                quiet[key] = None
        due = [(key, self._take(key)) for key in quiet]
        while self._open:
            key, oldest = next(iter(self._open.items()))
            if oldest.opened_s > now_s - limits.open_s and self.bytes <= limits.pending_bytes:
                break
            due.append((key, self._take(key)))
        self._let_go(now_s)
        return due

    def keep(self, key: bytes, trace: OpenTrace, requests: frozenset[RequestKey], now_s: float) -> None:
        """Keep a trace that was closed, all of whose spans are here, for late spans. `requests` are of its rows."""
        trace.requests = requests
        self._kept[key] = now_s, trace
        self._kept_bytes += trace.bytes

    def forget(self, keys: Iterable[bytes]) -> None:
        """Keep these traces no longer: spans of theirs were written without being added here."""
        for key in keys:
            if key in self._kept:
                self._kept_bytes -= self._kept.pop(key)[1].bytes
            if trace := self._open.get(key):
                trace.requests = None

    def _again(self, key: bytes, at: Position, now_s: float) -> OpenTrace | None:
        """A kept trace, opened again: its former spans need not be read once more, so the checkpoint waits for the new ones only."""
        if key not in self._kept:
            return None
        _, trace = self._kept.pop(key)
        self._kept_bytes -= trace.bytes
        self.bytes += trace.bytes
        trace.first, trace.opened_s = at, now_s
        return trace

    def _let_go(self, now_s: float) -> None:
        while self._kept:
            key, (closed_s, trace) = next(iter(self._kept.items()))
            if closed_s > now_s - self._limits.kept_s and self._kept_bytes <= self._limits.kept_bytes:
                break
            del self._kept[key]
            self._kept_bytes -= trace.bytes

    def checkpoint(self, read: Position) -> Position:
        """The position before which no record is needed any more, when everything up to `read` has been added."""
        return next(iter(self._open.values())).first if self._open else read

    def next_due_s(self) -> float | None:
        """When the next trace becomes due, if no span is added."""
        at_s = [self._rounds[0][0] + self._limits.quiet_s] if self._rounds else []
        if self._rootless:
            at_s.append(self._rootless[0][0])
        return min(at_s, default=None)

    def _too_large(self, key: bytes, trace: OpenTrace) -> None:
        """Drop its spans: after `open_s` it is closed with its spans in the store."""
        self.bytes -= trace.bytes
        trace.parts, trace.bytes, trace.large, trace.touched = [], 0, True, -1
        self._large[key] = None
        if len(self._large) > _MAX_LARGE:
            del self._large[next(iter(self._large))]

    def _take(self, key: bytes) -> OpenTrace:
        trace = self._open.pop(key)
        self.bytes -= trace.bytes
        return trace
