"""Reads spans of Triton's trace mode `opentelemetry`: `InferRequest` > model > `compute`, all of kind SERVER, stages in span events.

- `queue` is COMPUTE_START - QUEUE_START of each model. From COMPUTE_START on the time is `model`.
- The spans of a decoupled model end when its `execute` returns, long before its last response. The time until `InferRequest` ends is
  `model`.
- Ensemble steps are children of the ensemble's model span. A BLS call is a *sibling* of the caller's `compute`; `nest` moves it inside.
- Model spans are exported before `InferRequest` ends. Alone they are not a request yet (`Reading.inner`).
- GRPC_WAITREAD_START may lie long before the request, on an idle stream, so only span times bound anything here.
"""

from collections.abc import Iterable

from controlplane.telemetry.core.spans import Span
from controlplane.telemetry.ledger.reading import UNATTRIBUTED, Cuts, Entry, FirstToken, Node, Reading, by_time

SCOPE = "triton-server"

_SENDS = frozenset({"GRPC_SEND_START", "HTTP_SEND_START"})
_FIRST_RESPONSE = _SENDS | {"INFER_RESPONSE_COMPLETE"}
_MAX_NESTING = 8  # ensembles within ensembles


def read(span: Span) -> Reading | None:
    if "triton.model_name" in span.attributes:
        return _MODEL
    if span.name == "InferRequest":
        return _INFER_REQUEST
    if span.scope == SCOPE:
        return _COMPUTE if span.name == "compute" else _OTHER
    return None


def nest(nodes: Iterable[Node]) -> None:
    """Moves each model span that lies beside its caller's `compute` (a BLS call) under that `compute`."""
    for caller in nodes:
        if caller.reading is not _MODEL:
            continue
        compute = min((child for child in caller.children if child.reading is _COMPUTE), key=by_time, default=None)
        for child in caller.children:
            if compute is not None and child.reading is _MODEL and compute.start <= child.start < compute.end:
                child.parent = compute
                compute.children.append(child)
        caller.children = [child for child in caller.children if child.parent is caller]


def _event_ns(node: Node, name: str) -> int | None:
    times = [event.time_ns for event in node.span.events if event.name == name]
    return min(times) + node.shift if times else None


def _compute_start_ns(node: Node, depth: int = 0) -> int | None:
    """The first COMPUTE_START at or beneath a request or model span."""
    starts = []
    for child in node.children:
        if child.reading is _COMPUTE:
            starts.append(child.start)
        elif child.reading is _MODEL and depth < _MAX_NESTING:
            start = _compute_start_ns(child, depth + 1)
            if start is not None:
                starts.append(start)
    return min(starts, default=None)


def _model_cuts(node: Node) -> Cuts:
    kinds = {id(child.reading) for child in node.children}
    if id(_COMPUTE) not in kinds and id(_MODEL) in kinds:
        return []  # an ensemble: its steps have the stages
    queue_start = _event_ns(node, "QUEUE_START")
    compute_start = min((child.start for child in node.children if child.reading is _COMPUTE), default=None)
    if compute_start is None:  # never computed: refused or cancelled in the queue, unless events are missing
        return [(node.start, "model")] if queue_start is None else [(queue_start, "queue")]
    if queue_start is None:
        return [(compute_start, "model")]
    return [(queue_start, "queue"), (compute_start, "model")]


def _request_cuts(node: Node) -> Cuts:
    compute_start = _compute_start_ns(node)
    cuts: Cuts = []
    if compute_start is not None:
        cuts.append((compute_start, "model"))
    elif not any(child.reading is _MODEL for child in node.children):
        cuts.append((node.start, "model"))  # its model span is missing or has not arrived yet
    sends = [event.time_ns for event in node.span.events if event.name in _SENDS]
    if len(sends) == 1 and cuts:  # more than one: a stream, where sending overlaps with computing
        cuts.append((sends[0] + node.shift, "egress"))
    return cuts


def _queue_missing(node: Node) -> bool:
    """Whether the model's span, which has the queue time, is missing or has not arrived yet."""
    return not any(child.reading is _MODEL for child in node.children)


def _first_response(node: Node) -> FirstToken | None:
    times = [event.time_ns for event in node.span.events if event.name in _FIRST_RESPONSE]
    if not times:
        return None
    at = min(times) + node.shift
    return FirstToken(at - node.start, "triton-first-response", at) if at >= node.start else None


_INFER_REQUEST = Reading(
    "triton", Entry.ENGINE, cuts=_request_cuts, first_token=_first_response, queue_missing=_queue_missing
)
_MODEL = Reading("triton", Entry.ENGINE, cuts=_model_cuts, inner=True)
_COMPUTE = Reading("triton", stage="model", inner=True)
_OTHER = Reading("triton", stage=UNATTRIBUTED, inner=True)
