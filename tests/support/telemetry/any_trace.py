"""Strategies for traces of any shape."""

from hypothesis import strategies as st

from controlplane.telemetry.core.spans import CLIENT, INTERNAL, SERVER, AttrValue, Event, Span
from tests.support.telemetry.ledger_traces import TRACE

NAN = float("nan")

EMITTED: tuple[tuple[str, str, int, dict[str, AttrValue], tuple[str, ...]], ...] = (
    ("chat m", "weir.gateway", SERVER, {"weir.request": True, "weir.ttft_ns": 90, "gen_ai.usage.input_tokens": 9}, ()),
    ("gateway.receive", "weir.gateway", INTERNAL, {"weir.stage": "gateway"}, ()),
    ("cache.lookup", "weir.gateway", CLIENT, {"weir.stage": "cache"}, ()),
    ("model.infer", "weir.gateway", CLIENT, {"weir.stage": "model"}, ("first_token",)),
    (
        "InferRequest",
        "triton-server",
        SERVER,
        {},
        ("GRPC_WAITREAD_START", "INFER_RESPONSE_COMPLETE", "GRPC_SEND_START"),
    ),
    ("InferRequest", "triton-server", SERVER, {}, ("GRPC_SEND_START", "GRPC_SEND_START")),
    ("m", "triton-server", SERVER, {"triton.model_name": "m"}, ("QUEUE_START",)),
    ("compute", "triton-server", SERVER, {}, ("COMPUTE_START",)),
    (
        "llm_request",
        "vllm",
        SERVER,
        {"gen_ai.latency.time_in_queue": 5e-8, "gen_ai.latency.time_to_first_token": 2e-8},
        (),
    ),
    (
        "llm_request",
        "vllm",
        SERVER,
        {"gen_ai.latency.time_in_queue": NAN, "gen_ai.latency.time_in_model_inference": 9.0},
        (),
    ),
    ("chat m", "genai", CLIENT, {"gen_ai.operation.name": "chat"}, ()),
    ("chat m", "genai", SERVER, {"gen_ai.operation.name": "chat", "gen_ai.response.time_to_first_chunk": -1.0}, ()),
    ("POST", "http", SERVER, {"http.request.method": "POST", "url.path": "/v1/chat/completions"}, ()),
    ("POST", "http", SERVER, {"http.request.method": "POST", "url.path": "/"}, ()),
    ("POST", "http", CLIENT, {"http.request.method": "POST"}, ()),
    ("GET", "redis", CLIENT, {"db.system": "redis"}, ()),
    ("publish", "", 4, {}, ()),
    ("consume", "", 5, {"weir.stage": "nonsense"}, ()),
    ("work", "", INTERNAL, {}, ()),
)
"""Name, scope, kind, attributes and events of the spans in these traces."""

ids = st.integers(1, 14).map(lambda n: n.to_bytes(8, "big"))
times = st.lists(st.one_of(st.integers(0, 200), st.just(10**6)), min_size=2, max_size=2).map(sorted)


@st.composite
def spans(draw: st.DrawFn, span_id: bytes, parent_id: bytes, start: int, end: int) -> Span:
    name, scope, kind, attributes, events = draw(st.sampled_from(EMITTED))
    return Span(
        trace_id=TRACE,
        span_id=span_id,
        parent_id=parent_id,
        name=name,
        kind=kind,
        start_ns=start,
        end_ns=end,
        status_code=draw(st.integers(0, 2)),
        service=draw(st.sampled_from(["a", "b"])),
        scope=scope,
        attributes=attributes,
        events=tuple(Event(start + draw(st.integers(-30, 90)), event) for event in events),
    )


@st.composite
def rubble(draw: st.DrawFn) -> list[Span]:
    """Unrelated spans: missing parents, cycles, repeats that differ."""
    parents = st.one_of(st.just(b""), ids)
    return [draw(spans(draw(ids), draw(parents), *draw(times))) for _ in range(draw(st.integers(0, 10)))]


@st.composite
def trees(draw: st.DrawFn) -> list[Span]:
    """Mostly valid traces: children within or a little beyond their parents, of any mixture of emitters."""
    made = [draw(spans(bytes([0] * 7 + [1]), b"", 0, 1000))]
    for number in range(2, draw(st.integers(2, 12))):
        parent = draw(st.sampled_from(made))
        start = draw(st.integers(parent.start_ns - 20, max(parent.start_ns, parent.end_ns)))
        end = draw(st.integers(start, max(start, parent.end_ns + 20)))
        made.append(draw(spans(number.to_bytes(8, "big"), parent.span_id, max(0, start), max(0, end))))
    return made


traces = st.one_of(trees(), rubble())
