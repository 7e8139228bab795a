"""Triton's spans: recorded traces against figures that were computed by hand from their events, and made-up traces."""

import pytest

from controlplane.telemetry.core.spans import CLIENT, SERVER
from controlplane.telemetry.ledger import close
from inference.core import otlp
from inference.observability.span_encoding import encode_own_call
from inference.observability.spans import OwnCall
from tests.support.telemetry.ledger_traces import assert_closes, gateway, gateway_trace, in_gateway, span, spent, triton
from tests.support.telemetry.otlp_payloads import spans_in
from tests.support.telemetry.recorded_traces import by_trace, recorded

ENSEMBLE = "aaaabbbbccccddddeeeeffff00001111"
STREAM_PREFIX = "7aec4675"


def test_what_servers_say_of_weir_s_own_calls_is_no_request() -> None:
    """Triton exports traces whatever their `traceparent` says of sampling."""
    for spans in by_trace(recorded("triton/otlp-0.json", "triton/otlp-1.json")).values():
        call = OwnCall("chat/eu", "chat-0")
        own = [span._replace(trace_id=call.trace_id, parent_id=span.parent_id or call.id) for span in spans]
        if not any(span.parent_id == call.id for span in own):
            known = {span.span_id for span in own}
            own = [span if span.parent_id in known else span._replace(parent_id=call.id) for span in own]
        said = spans_in(otlp.request([encode_own_call(call, own[0].start_ns)], "weir.gateway", ()))
        assert close(own) and not close([*own, *said])


def test_the_first_response_that_is_sent_is_the_first_token() -> None:
    sends = [("GRPC_SEND_START", 1700), ("GRPC_SEND_START", 1390), ("GRPC_SEND_START", 1955)]
    request = triton("InferRequest", 1210, 1960, b"", events=[("GRPC_WAITREAD_START", 1205), *sends])
    chat = triton("chat", 1212, 1300, request, events=[("REQUEST_START", 1212), ("QUEUE_START", 1215)], model=True)
    (row,) = close([request, chat])
    assert (row.ttft_ns, row.ttft_definition) == (1390 - 1210, "triton-first-response")


def test_where_tritons_clock_differs_its_first_response_is_shifted_as_its_spans_are() -> None:
    call = span("call", 1000, 2000, kind=CLIENT)
    request = triton("InferRequest", 11_210, 11_960, call, events=[("GRPC_SEND_START", 11_390)])
    chat = triton("chat", 11_212, 11_300, request, events=[("QUEUE_START", 11_215)], model=True)
    (row,) = close([call, request, chat, triton("compute", 11_240, 11_300, chat, events=[])])
    assert (row.stages["queue"], row.stages["egress"]) == (25, 11_960 - 11_390)
    assert (row.ttft_ns, row.ttft_definition, row.start_ns) == (180, "triton-first-response", 1000)


def test_a_model_that_only_called_another_one_waited_for_it() -> None:
    request = triton("InferRequest", 0, 1000, b"", events=[("GRPC_SEND_START", 990)])
    caller = triton("bls", 10, 980, request, events=[("QUEUE_START", 10), ("COMPUTE_START", 100)], model=True)
    called = triton("inner", 300, 600, caller, events=[("QUEUE_START", 300), ("COMPUTE_START", 400)], model=True)
    computes = [
        triton("compute", at, end, of, events=[("COMPUTE_START", at)])
        for at, end, of in ((100, 900, caller), (400, 590, called))
    ]
    (row,) = close([request, caller, called, *computes])
    assert row.stages["queue"] == 90 + 100


def test_an_ensemble_with_a_bls_call_counts_each_models_queue_and_compute() -> None:
    (row,) = close(by_trace(recorded("triton/otlp-0.json"))[ENSEMBLE])
    t0 = 1795211597_000000000
    queues = {
        "textgen": (t0 + 387733469) - (t0 + 367518473),  # COMPUTE_START - QUEUE_START
        "bls": (t0 + 409330748) - (t0 + 409194414),
        "streamer, called by bls": (t0 + 410034208) - (t0 + 409975680),
    }
    assert queues == {"textgen": 20_214_996, "bls": 136_334, "streamer, called by bls": 58_528}
    assert row.stages["queue"] == sum(queues.values())
    # Computing: textgen until bls takes over, then bls until its request ends, less what its call waited.
    textgen = 409084900 - 387733469
    bls = 469829097 - 409330748
    call_waited = 58_528 + (409975680 - 409895460)  # in the queue, and before QUEUE_START (unattributed)
    assert row.stages["model"] == textgen + bls - call_waited == 81_711_032
    assert row.e2e_ns == 469956507 - 367360037  # InferRequest; the idle wait before it counts nothing
    assert row.stages["egress"] == 469956507 - 469842788  # after the ensemble's end: the answer being sent
    assert row.model == "pipe"
    assert (row.ttft_ns, row.ttft_definition) == (469527838 - 367360037, "triton-first-response")
    assert row.unattributed_ns * 100 < row.e2e_ns


def test_a_decoupled_stream_is_the_models_until_the_request_ends() -> None:
    (spans,) = (
        s
        for t, s in by_trace(recorded("triton/otlp-0.json", "triton/otlp-1.json")).items()
        if t.startswith(STREAM_PREFIX)
    )
    (row,) = close(spans)
    assert spent(row) == {
        "queue": 477080708 - 477023012,
        "model": 683177409 - 477080708,  # the model's own span ended at 477706122, its last token went out at 671858958
        "unattributed": 477023012 - 476901411,  # until QUEUE_START
    }
    assert row.model == "streamer"
    assert row.ttft_ns == 488096396 - 476901411
    assert row.prefill_ns == 488096396 - 477080708
    assert row.prefill_ns + row.decode_ns == row.stages["model"]


def test_a_stream_that_has_not_ended_is_no_request_yet() -> None:
    """The model's spans are exported when `execute` returns, long before the stream ends and `InferRequest` comes."""
    (spans,) = (s for t, s in by_trace(recorded("triton/otlp-0.json")).items() if t.startswith(STREAM_PREFIX))
    assert {one.name for one in spans} == {"streamer", "compute"}
    assert close(spans) == []
    assert close([one for one in spans if one.name == "compute"]) == []


def test_inside_the_gateways_call_triton_says_queue_and_model_and_the_rest_is_network() -> None:
    (row,) = close(in_gateway())
    assert spent(row) == {
        "gateway": 30,
        "cache": 20,
        "tokenizer": 40,
        "queue": 100 + 75,  # the gateway's admission, then Triton's own queue from 1215 to 1290
        "model": 670,
        "network": 10 + 10,
        "egress": 30,
        "unattributed": 10 + 5,
    }
    assert row.adapter == "weir"
    assert (row.prefill_ns, row.decode_ns) == (1400 - 1290, 1960 - 1400)


def test_tritons_spans_find_their_call_when_the_span_between_is_lost() -> None:
    spans = in_gateway()
    infer = spans.pop(5)
    assert infer.name == "model.infer"
    (row,) = close(spans)
    assert row.adapter == "weir"
    assert row.stages["queue"] == 175
    assert_closes([row])


def test_until_the_whole_request_span_is_here_the_call_stays_the_models() -> None:
    spans = in_gateway()
    (row,) = close([s for s in spans if s.name != "InferRequest"])
    assert row.stages["network"] == 0
    assert row.stages["queue"] == 175


def test_triton_in_progress_is_no_request_beside_the_gateways_other_one() -> None:
    spans = in_gateway()
    inner = [one for one in spans if one.name in ("chat", "compute") and one.scope == "triton-server"]
    before = gateway_trace(at=100_000)
    assert [row.adapter for row in close([*before, *inner])] == ["weir"]
    assert close(inner) == []
    request = next(one for one in spans if one.name == "InferRequest")
    assert [row.adapter for row in close([*inner, request])] == ["triton"], "known from Triton alone, and ended"


def test_a_model_span_without_a_parent_is_a_request() -> None:
    alone = span("chat", 5, 95, kind=SERVER, scope="triton-server", triton__model_name="chat")
    assert [row.model for row in close([alone])] == ["chat"]


def test_a_request_refused_in_the_queue_spent_its_time_there() -> None:
    request = span("InferRequest", 0, 100, kind=SERVER, scope="triton-server", service="triton")
    model = triton("chat", 5, 95, request, events=[("QUEUE_START", 10)], model=True)
    (row,) = close([request, model])
    assert row.stages["queue"] == 85


@pytest.mark.parametrize("parents", ["itself", "each_other", "the_request", "missing"])
def test_a_model_that_has_not_ended_does_not_hide_the_gateways_request_beneath_it(parents: str) -> None:
    outer, inner, missing = b"outer000", b"inner000", b"missing0"
    request = gateway("chat chat", 10, 90, inner, kind=SERVER, weir__request=True)
    above = {"itself": [inner], "each_other": [outer, inner], "the_request": [request.span_id], "missing": [missing]}
    chain = [inner, outer][: len(above[parents])]
    models = [
        triton("chat", at, 100 - at, missing, events=[], model=True)._replace(span_id=span_id, parent_id=parent)
        for at, (span_id, parent) in enumerate(zip(chain, above[parents], strict=True))
    ]
    again = triton("compute", 1, 2, inner, events=[])._replace(span_id=inner)
    beside = triton("other", 20, 30, inner, events=[], model=True)
    for known in ([*models, request], [*models, request, again], [*models, beside, request]):
        rows = close(known)
        assert [row.request_id for row in rows] == [request.span_id.hex()]
        assert_closes(rows)


def test_a_model_that_called_the_gateway_belongs_to_its_own_request_once_that_ended() -> None:
    whole = span("InferRequest", 0, 100, kind=SERVER, scope="triton-server", service="triton")
    model = triton("chat", 5, 95, whole, events=[("QUEUE_START", 10)], model=True)
    called = gateway("chat chat", 20, 90, model, kind=SERVER, weir__request=True)
    assert [row.adapter for row in close([model, called])] == ["weir"]
    (row,) = close([whole, model, called])
    assert (row.adapter, row.span_count) == ("triton", 3)


def test_a_bls_call_belongs_to_the_first_compute_of_its_caller() -> None:
    request = triton("InferRequest", 0, 100, b"", events=[])
    caller = triton("bls", 5, 95, request, events=[("QUEUE_START", 10)], model=True)
    first = triton("compute", 20, 60, caller, events=[])
    second = triton("compute", 60, 90, caller, events=[])
    called = triton("chat", 25, 55, caller, events=[("QUEUE_START", 25)], model=True)
    (row,) = close([request, caller, first, second, called, triton("compute", 40, 55, called, events=[])])
    assert row.stages["queue"] == (20 - 10) + (40 - 25)


@pytest.mark.parametrize(("nested", "model_ns"), [(1, 80), (8, 80), (9, 30)])
def test_ensembles_are_followed_eight_deep(nested: int, model_ns: int) -> None:
    """The stream goes on for 50 after the models' spans: that is the model's where its first computation is found."""
    spans = [triton("InferRequest", 0, 100, b"", events=[])]
    for number in range(nested):
        spans.append(triton(f"ensemble-{number}", 10, 50, spans[-1], events=[], model=True))
    (row,) = close([*spans, triton("compute", 20, 50, spans[-1], events=[])])
    assert row.stages["model"] == model_ns
