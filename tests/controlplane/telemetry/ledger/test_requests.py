"""Which spans are requests, and which spans belong to none."""

import itertools

import pytest

from controlplane.telemetry.core.spans import CLIENT, INTERNAL, SERVER, AttrValue, Event, Span
from controlplane.telemetry.ledger import close
from controlplane.telemetry.ledger.loads import loads
from tests.support.telemetry.ledger_traces import assert_closes, gateway, gateway_trace, span, spent

ABSENT = b"\x07" * 8


def names(spans: list[Span]) -> list[str]:
    """The names of the spans that `close` takes for requests."""
    by_id = {s.span_id.hex(): s.name for s in spans}
    return [by_id[row.request_id] for row in close(spans)]


def test_an_agent_that_calls_thrice_makes_three_requests() -> None:
    agent = span("agent", 0, 9000)
    steps = [span(f"POST {i}", at, at + 1100, agent, kind=CLIENT) for i, at in enumerate((1000, 3000, 5000))]
    served = [gateway_trace(step.start_ns + 50, parent=step) for step in steps]
    spans = [agent, span("think", 2200, 2900, agent), *steps, *itertools.chain(*served)]
    rows = close(spans)
    assert [row.start_ns for row in rows] == [1000, 3000, 5000]
    assert [row.e2e_ns for row in rows] == [1100, 1100, 1100]
    assert [row.span_count for row in rows] == [9, 9, 9]
    assert all(row.stages["network"] == 100 for row in rows)


def test_an_application_around_the_gateway_is_no_request() -> None:
    app = span("GET /ask", 0, 5000, kind=SERVER, http__request__method="GET", http__route="/ask")
    assert names([app, *gateway_trace(parent=app)]) == ["chat chat"]


def test_a_server_of_inference_around_an_engine_is_the_request() -> None:
    front = span("POST", 0, 100, kind=SERVER, http__request__method="POST", url__path="/v1/chat/completions")
    out = span("POST", 10, 90, front, kind=CLIENT, http__request__method="POST")
    engine = span("llm_request", 20, 80, out, kind=SERVER, service="vllm")
    step = span("step", 30, 30, engine, gen_ai__usage__output_tokens=7)
    (row,) = close([engine, out, front, step])
    assert (row.request_id, row.adapter, row.operation) == (front.span_id.hex(), "http", "chat")
    assert row.output_tokens is None, "what a part of the request counted is not the request's"
    assert spent(row) == {"network": 20, "model": 60, "unattributed": 20}


def test_a_call_to_a_model_whose_server_sends_no_spans_is_a_request_of_the_model() -> None:
    agent = span("invoke_agent", 0, 100, gen_ai__operation__name="invoke_agent")
    calls = [
        span(f"chat {i}", at, at + 20, agent, kind=CLIENT, gen_ai__operation__name="chat")
        for i, at in enumerate((10, 60))
    ]
    rows = close([agent, *calls])
    assert [(row.e2e_ns, spent(row)) for row in rows] == [(20, {"model": 20})] * 2


def test_a_call_through_an_instrumented_http_client_is_still_the_models() -> None:
    chat = span("chat m", 0, 100, kind=CLIENT, gen_ai__operation__name="chat")
    post = span(
        "POST", 5, 95, chat, kind=CLIENT, http__method="POST", http__url="https://api.example.com/v1/chat/completions"
    )
    assert [spent(row) for row in close([post, chat])] == [{"model": 100}]


CALLS: tuple[dict[str, AttrValue], ...] = (
    {"gen_ai.operation.name": "chat"},
    {"http.method": "POST", "http.url": "https://api.example.com/v1/chat/completions"},
    {"weir.stage": "model"},
)
SERVERS: tuple[tuple[int, dict[str, AttrValue]], ...] = (
    (SERVER, {}),
    (SERVER, {"http.method": "POST", "http.route": "/run"}),
    (SERVER, {"gen_ai.operation.name": "chat"}),
    (INTERNAL, {"component": "backend"}),
)


@pytest.mark.parametrize("called", CALLS)
@pytest.mark.parametrize(("kind", "served"), SERVERS)
def test_once_a_server_is_seen_inside_the_clients_own_time_is_network(
    called: dict[str, AttrValue], kind: int, served: dict[str, AttrValue]
) -> None:
    root = gateway("chat m", 0, 100, kind=SERVER, weir__request=True)
    call = span("chat m", 10, 90, root, kind=CLIENT, also=called)
    post = span("POST", 15, 85, call, kind=CLIENT)
    for between in ([], [post]):
        server = span("handle_payload", 20, 80, (call, *between)[-1], kind=kind, service="llm", also=served)
        (row,) = close([root, call, *between, server])
        assert (row.stages["network"], row.unmeasured) == (20, False)


@pytest.mark.parametrize("inside", [False, True])
def test_where_the_model_ran_is_what_the_engines_resource_says(inside: bool) -> None:
    place: dict[str, AttrValue] = {f"weir.{name}": f"its {name}" for name in ("pool", "replica", "region", "variant")}
    front = span("POST", 0, 100, kind=SERVER, http__method="POST", http__route="/v1/completions")
    engine = span("InferRequest", 10, 90, front, kind=SERVER, service="triton")
    part = span("m", 20, 80, engine, kind=SERVER, service="triton", triton__model_name="m")
    spans = [front, engine._replace(resource=place | {"weir.model": "chat"}), part._replace(attributes={"x": 1})]
    (row,) = close(spans if inside else [spans[1]])
    assert (row.pool, row.replica, row.region, row.variant) == ("its pool", "its replica", "its region", "its variant")
    assert (row.model, row.origin) == ("chat", ())


def test_where_it_was_served_is_what_its_spans_say_of_it() -> None:
    said: dict[str, AttrValue] = {"server.address": "a", "server.port": 1, "url.full": "https://u:p@b:2/v1?x=c:3"}
    call = span("POST", 0, 100, kind=CLIENT, also=said)
    served = span("llm_request", 10, 90, call, kind=SERVER, service="llm")
    served = served._replace(resource={"host.name": "h", "k8s.pod.name": "pod", "net.host.name": "n"})
    (row,) = close([call, served])
    assert row.origin == ("a:1", "b:2", "pod", "h", "llm")


def test_of_two_engines_in_a_request_the_first_says_what_it_took() -> None:
    front = span("POST", 0, 100, kind=SERVER, http__method="POST", http__route="/v1/completions")
    engines = [span("llm_request", at, at + 30, front, kind=SERVER, gen_ai__usage__output_tokens=at) for at in (60, 10)]
    assert [row.output_tokens for row in close([front, *engines])] == [10]


def test_a_model_s_load_is_no_request_and_says_whose_it_is() -> None:
    load = span("Overall Loading", 5, 9, scope="vllm.v1.engine.core_client", service="llm")
    part = span("Load model", 6, 8, load, scope="vllm.v1.engine.core_client")
    (found,) = loads([load._replace(resource={"weir.pool": "p", "gen_ai.request.model": "m"}), part])
    assert (found.start_ns, found.end_ns, found.pool, found.model, found.service) == (5, 9, "p", "m", "llm")


@pytest.mark.parametrize(("above", "model"), [(1, "chat"), (16, "chat"), (17, "")])
def test_a_request_that_names_no_model_has_the_one_of_a_span_around_it(above: int, model: str) -> None:
    spans = [span("agent", 0, 100, gen_ai__request__model="chat")]
    for _ in range(above - 1):
        spans.append(span("step", 0, 100, spans[-1]))
    (row,) = close([*spans, span("llm_request", 10, 90, spans[-1], kind=SERVER)])
    assert row.model == model


def test_where_nothing_is_recognised_each_root_of_a_server_is_a_request() -> None:
    first, second = span("a", 0, 10, kind=SERVER), span("b", 20, 40, kind=SERVER)
    spans = [second, first, span("child", 2, 5, first), span("lost elsewhere", 100, 110, ABSENT)]
    assert names(spans) == ["a", "b"]
    assert [spent(row) for row in close(spans)] == [{"unattributed": 10}, {"unattributed": 20}]


NO_REQUESTS = {
    "work at a start": lambda: [span("Overall Loading", 0, 62, scope="vllm.v1.engine.core_client")],
    "a job": lambda: [job := span("run/train", 0, 50, kind=5), span("SELECT", 1, 9, job, kind=CLIENT, db__system="x")],
    "a health probe": lambda: [
        span("GET /health", 0, 1, kind=SERVER, http__request__method="GET", http__route="/health")
    ],
    "a health probe over gRPC": lambda: [
        span("Check", 0, 1, kind=SERVER, rpc__service="grpc.health.v1.Health", rpc__method="Check")
    ],
    "a call for readiness": lambda: [
        span("ready", 0, 1, kind=SERVER, rpc__service="inference.GRPCInferenceService", rpc__method="ServerReady")
    ],
    "a list of models": lambda: [span("GET", 0, 1, kind=SERVER, http__method="GET", http__target="/v1/models")],
    "a part of a start whose root is on its way": lambda: [span("Load model", 0, 9, ABSENT, scope="vllm.x")],
    "a part of a job": lambda: [span("publish", 0, 9, ABSENT, kind=CLIENT)],
}


@pytest.mark.parametrize("what", NO_REQUESTS)
def test_only_what_is_a_request_is_a_request(what: str) -> None:
    assert close(NO_REQUESTS[what]()) == []


def test_a_trace_whose_spans_name_stages_is_a_request_whatever_its_kind() -> None:
    root = span("pipeline", 0, 100)
    (row,) = close([root, span("encode", 10, 30, root, weir__stage="tokenizer")])
    assert spent(row) == {"tokenizer": 20, "unattributed": 80}


def test_an_orphan_inside_a_request_belongs_to_its_deepest_span_around_it() -> None:
    spans = gateway_trace()
    lookup = spans[2]
    orphan = span("GET", lookup.start_ns + 5, lookup.end_ns - 5, ABSENT, weir__stage="network")
    (row,) = close([*spans, orphan])
    assert (row.stages["cache"], row.stages["network"]) == (10, 10)
    assert row.span_count == 9


def test_an_orphan_that_is_an_entry_is_a_request() -> None:
    assert names([*gateway_trace(parent=ABSENT)]) == ["chat chat"]
    assert names([span("llm_request", 0, 5, ABSENT, kind=SERVER)]) == ["llm_request"]


def test_two_gateway_requests_side_by_side_stay_two_when_their_caller_is_missing() -> None:
    spans = [*gateway_trace(1000, parent=ABSENT), *gateway_trace(1000, parent=ABSENT)]
    rows = close(spans)
    assert [row.e2e_ns for row in rows] == [1000, 1000]
    assert all(row.stages["model"] == 770 for row in rows)


def test_orphans_alone_are_requests_the_inner_within_the_outer() -> None:
    spans = [
        span(name, start, end, ABSENT, kind=SERVER)
        for name, start, end in (("inner", 2, 5), ("outer", 0, 10), ("apart", 20, 30))
    ]
    assert names(spans) == ["outer", "apart"]


def test_a_client_that_tried_twice_gives_each_try_its_own_window() -> None:
    caller = span("POST", 0, 5000, kind=CLIENT)
    rows = close([caller, *gateway_trace(1000, parent=caller), *gateway_trace(3000, parent=caller)])
    assert [(row.start_ns, row.e2e_ns) for row in rows] == [(1000, 1000), (3000, 1000)]


def test_spans_in_a_circle_are_cut_where_they_began() -> None:
    a = span("a", 0, 100, kind=SERVER, span_id=b"a" * 8, parent=b"c" * 8)
    b = span("b", 10, 50, a, span_id=b"b" * 8)
    c = span("c", 20, 40, b, span_id=b"c" * 8)
    for spans in itertools.permutations([a, b, c]):
        (row,) = close(spans)
        assert (row.request_id, row.e2e_ns, row.span_count) == ((b"a" * 8).hex(), 100, 3)
    assert names([span("x", 0, 5, kind=SERVER, span_id=b"x" * 8, parent=b"x" * 8)]) == ["x"]


def test_of_two_versions_of_a_span_the_fuller_counts_whatever_came_first() -> None:
    poor = span("chat", 0, 10, kind=SERVER, span_id=b"s" * 8)
    rich = span("chat", 0, 30, kind=SERVER, span_id=b"s" * 8, gen_ai__usage__input_tokens=5)
    for spans in ([poor, rich], [rich, poor], [rich, poor, rich]):
        assert [(row.e2e_ns, row.prompt_tokens) for row in close(spans)] == [(30, 5)]
    eventful = poor._replace(end_ns=20, events=(Event(5, "retry"),))
    for later in (poor._replace(end_ns=30), poor):
        assert [row.e2e_ns for row in close([eventful, later])] == [20]
    assert [row.e2e_ns for row in close([poor._replace(end_ns=30), poor])] == [30]


def test_what_weirs_own_control_plane_does_is_no_request() -> None:
    page = span("GET /latency", 0, 90, kind=SERVER, weir__internal=True, http__request__method="GET")
    assert close([page, span("query", 10, 80, page, kind=CLIENT, weir__internal=True)]) == []
    assert len(close([page, *gateway_trace(parent=page)])) == 1, "a gateway's request beneath it is one"


def test_a_request_whose_client_names_another_s_span_as_its_parent_is_one_of_its_own() -> None:
    first = gateway_trace()
    root = next(span for span in first if "weir.request" in span.attributes)
    for at in (1_100, 5_000):  # beside it, as when its stream has told its id, and after it
        rows = close([*first, *gateway_trace(at, root)])
        assert_closes(rows)
        assert len(rows) == 2 and rows[0] == close(first)[0]
