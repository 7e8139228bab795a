"""Groups incoming spans by trace, and decides when a trace is complete. Callers pass the time."""

from collections import deque
from dataclasses import dataclass

from controlplane.telemetry.core.spans import ROW_SPANS, Span
from controlplane.telemetry.ingest.otlp.decode.columnar import Part, Spans
from controlplane.telemetry.ingest.spool.frame import Position

_MOST_LARGE = 10_000  # remembered


@dataclass(frozen=True, slots=True)
class Limits:
    """When a trace is closed."""

    quiet_s: float = 1.0  # after its last span: exporters send the spans of a trace within less
    open_s: float = 10.0  # after its first span at the latest: the checkpoint waits for it
    pending_bytes: int = 32 * 2**20  # of bodies whose spans wait; they take about ten times that in memory
    trace_spans: int = ROW_SPANS  # a larger trace is closed with its spans in the store, once every `open_s` at most


class OpenTrace:
    __slots__ = ("bytes", "count", "earliest_ns", "first", "large", "opened_s", "parts", "received_ns", "touched")

    def __init__(self, first: Position, opened_s: float, received_ns: int) -> None:
        self.first, self.opened_s, self.received_ns = first, opened_s, received_ns
        self.parts: list[tuple[Spans, Part]] = []
        self.earliest_ns = 2**63
        self.bytes = self.count = 0
        self.touched = -1
        self.large = False  # its spans are not held here

    def spans(self) -> list[Span]:
        if len(self.parts) == 1:
            spans, part = self.parts[0]
            return spans.of(part)
        return [span for spans, part in self.parts for span in spans.of(part)]


class Traces:
    """Open traces. A trace is due when no span came for `quiet_s`, after `open_s`, or when memory is short (the oldest first)."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: dict[bytes, OpenTrace] = {}  # in order of first arrival
        self._rounds: deque[tuple[float, list[bytes]]] = deque()  # which traces were touched when
        self._round = 0
        self._large: dict[bytes, None] = {}  # traces that were too large, the latest last
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._open)

    def add(self, spans: Spans, at: Position, now_s: float, received_ns: int = 0) -> None:
        """Take spans of the record that begins at `at` and was received at `received_ns` since the Unix epoch."""
        self._round += 1
        touched: list[bytes] = []
        for part in spans.parts():
            trace_id, first, last, size, earliest_ns = part
            trace = self._open.get(trace_id)
            if trace is None:
                trace = self._open[trace_id] = OpenTrace(at, now_s, received_ns)
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
            trace.bytes += size
            self.bytes += size
            trace.touched = self._round
            touched.append(trace_id)
        self._rounds.append((now_s, touched))

    def due(self, now_s: float) -> list[tuple[bytes, OpenTrace]]:
        """Remove and return the traces that are due."""
        quiet: list[bytes] = []
        while self._rounds and self._rounds[0][0] <= now_s - self._limits.quiet_s:
            ended = self._round - len(self._rounds) + 1
            quiet += [
                key for key in self._rounds.popleft()[1] if key in self._open and self._open[key].touched == ended
            ]
        due = [(key, self._take(key)) for key in dict.fromkeys(quiet) if key in self._open]
        while self._open:
            key, oldest = next(iter(self._open.items()))
            if oldest.opened_s > now_s - self._limits.open_s and self.bytes <= self._limits.pending_bytes:
                break
            due.append((key, self._take(key)))
        return due

    def checkpoint(self, read: Position) -> Position:
        """The position before which no record is needed any more, when everything up to `read` has been added."""
        return next(iter(self._open.values())).first if self._open else read

    def next_due_s(self) -> float | None:
        """When the next trace becomes due, if no span is added."""
        return self._rounds[0][0] + self._limits.quiet_s if self._rounds else None

    def _too_large(self, key: bytes, trace: OpenTrace) -> None:
        """Drop its spans: after `open_s` it is closed with its spans in the store."""
        self.bytes -= trace.bytes
        trace.parts, trace.bytes, trace.large, trace.touched = [], 0, True, -1
        self._large[key] = None
        if len(self._large) > _MOST_LARGE:
            del self._large[next(iter(self._large))]

    def _take(self, key: bytes) -> OpenTrace:
        trace = self._open.pop(key)
        self.bytes -= trace.bytes
        return trace
