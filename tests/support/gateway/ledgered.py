"""Which requests of a gateway the ledger has a row of: what a client sends, as the gateway reads it and the ledger closes it."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from controlplane.telemetry.core.spans import ROW_SPANS, Span
from controlplane.telemetry.ledger import close
from inference.core import otlp
from inference.observability.context import CallerTraces
from inference.observability.span_encoding import encode_trace
from inference.observability.spans import ADMIT, INFER, RESPOND, Mark, Trace
from inference.wires.http.exchange import Request
from inference.wires.http.reader import Reader
from tests.support.telemetry.otlp_payloads import spans_in

NOW_NS = 1_800_000_000_000_000_000


def unledgered(header_sets: Iterable[Sequence[tuple[str, str]]]) -> tuple[int, int]:
    """How many of the requests that the gateway reads have no row or more than one, and how many it reads: it refuses some.

    Each request lasts a millisecond and reaches a model. They come one after the other, one in four beside the one before.
    """
    read: list[Request] = []
    traces = CallerTraces()
    encoded: list[bytes] = []
    wanted: list[str] = []
    for number, fields in enumerate(header_sets):
        read.clear()
        _reader(read).feed(_wire(fields))
        [request] = read
        trace = Trace(number * 1_000_000 - 500_000 * (number % 4 == 0), request.headers.get(b"traceparent"), "chat")
        trace.leave_full(traces)
        start = trace.start_ns
        infer = Mark(INFER, start + 200_000, replica="r0", pool="p")
        infer.id = number.to_bytes(8, "little", signed=False)
        trace.marks += [Mark(ADMIT, start + 100_000), infer, Mark(RESPOND, start + 900_000)]
        trace.end_ns, trace.model, trace.pool, trace.http_status = start + 1_000_000, "chat", "p", 200
        encoded.append(encode_trace(trace, NOW_NS))
        wanted.append(trace.id.hex())
    return missing(spans_in(otlp.request(encoded, "weir.gateway", ())), wanted), len(wanted)


def missing(spans: Iterable[Span], wanted: Sequence[str]) -> int:
    """How many of the root spans have not exactly one row, where each trace is closed as the pipeline does it."""
    by_trace: defaultdict[bytes, list[Span]] = defaultdict(list)
    for span in spans:
        by_trace[span.trace_id].append(span)
    rows: defaultdict[str, int] = defaultdict(int)
    for trace in by_trace.values():
        earliest = sorted(trace, key=lambda span: span.start_ns)[:ROW_SPANS]
        for row in close(earliest):
            rows[row.request_id] += 1
    return sum(rows[identity] != 1 for identity in wanted)


def _reader(read: list[Request]) -> Reader:
    return Reader(1 << 20, lambda _: None, lambda _: None, lambda: None, read.append)


def _wire(fields: Sequence[tuple[str, str]]) -> bytes:
    lines = ["POST /v1/chat/completions HTTP/1.1", "host: gateway", *(f"{name}: {value}" for name, value in fields)]
    return "\r\n".join((*lines, "content-length: 2", "", "{}")).encode("latin-1")
