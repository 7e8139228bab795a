"""The span contract of docs/architecture.md, read with the decoder of opentelemetry-proto."""

import asyncio
import json
import os
import secrets
import signal
from itertools import pairwise
from statistics import median
from typing import Any
from unittest.mock import patch

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from deploy.local.process import Managed
from deploy.local.triton import Triton
from inference.contract.metering.spending import key_name
from inference.contract.snapshot import Snapshot, key_digest
from inference.core import otlp
from inference.observability import spans
from inference.observability.span_encoding import encode_trace
from inference.observability.spans import Mark, Trace
from tests.support.gateway.process import (
    KEY,
    LARGE,
    SMALL,
    Gateway,
    Received,
    Receiver,
    Serve,
    StartGateway,
    a_snapshot,
    small_only,
    unique,
    with_timeouts,
)
from tests.support.gateway.triton_double import StartDouble
from tests.support.wait import eventually_async

MISS = ["gateway.receive", "cache.lookup", "tokenizer.encode", "admission.wait", "model.infer", "gateway.respond"]
HIT = ["gateway.receive", "cache.lookup", "gateway.respond"]


def parts(trace: list[Received]) -> tuple[Received, list[Received]]:
    """The root, and its stages in order, without the write to the cache."""
    root = next(span for span in trace if "weir.request" in span.attributes)
    children = sorted((span for span in trace if span.parent_id == root.span_id), key=lambda span: span.start_ns)
    return root, [span for span in children if span.name != "cache.write"]


async def ask(gateway: Gateway, messages: Any, headers: dict[str, str] | None = None, **options: Any) -> str:
    """The trace's id."""
    raw = await gateway.client().chat.completions.with_raw_response.create(
        **{"model": SMALL, "messages": messages, "max_tokens": 4, "temperature": 0, **options}, extra_headers=headers
    )
    if options.get("stream"):
        async for _ in raw.parse():
            pass
    return str(raw.headers["x-request-id"])


@pytest.mark.parametrize("stream", [True, False])
async def test_a_miss_and_a_hit_have_their_stages_without_gaps(
    gateway: Gateway, receiver: Receiver, stream: bool
) -> None:
    messages = unique()
    miss = await receiver.trace(await ask(gateway, messages, stream=stream), 8)
    hit = await receiver.trace(await ask(gateway, messages, stream=stream), 4)
    for trace, names in ((miss, MISS), (hit, HIT)):
        root, stages = parts(trace)
        assert [span.name for span in stages] == names
        edges = [root.start_ns, *(span.end_ns for span in stages)]
        assert [span.start_ns for span in stages] == edges[:-1]
        assert edges[-1] == root.end_ns
        if stream:
            assert root.attributes["weir.ttft_ns"] <= root.end_ns - root.start_ns
        else:
            assert "weir.ttft_ns" not in root.attributes, "the first token arrives with the last"


async def test_the_root_says_what_is_known(gateway: Gateway, receiver: Receiver) -> None:
    messages = unique()
    root, stages = parts(await receiver.trace(await ask(gateway, messages, stream=True), 8))
    known = root.attributes
    assert root.name == "chat chat-small"
    assert root.kind == otlp.SERVER
    expected = {
        "weir.request": True,
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": SMALL,
        "gen_ai.request.stream": True,
        "http.response.status_code": 200,
        "weir.model": SMALL,
        "weir.variant": SMALL,
        "weir.pool": SMALL,
        "weir.replica": "r0",
        "weir.region": "local",
        "weir.caller_region": "local",
        "weir.tier": "standard",
        "weir.tenant": "alice",
        "weir.key": key_name(key_digest(KEY)),
        "weir.status": "ok",
        "weir.cache.outcome": "miss",
        "weir.policy_version": 1,
    }
    assert {key: known.get(key) for key in expected} == expected
    assert known["gen_ai.response.finish_reasons"] in (("length",), ("stop",))
    assert known["gen_ai.usage.input_tokens"] > 0
    assert 0 < known["gen_ai.usage.output_tokens"] <= 4
    assert "weir.cost_usd" not in known, "nobody has entered a price"
    assert known["gen_ai.response.time_to_first_chunk"] == known["weir.ttft_ns"] / 1e9
    infer = next(span for span in stages if span.name == "model.infer")
    assert (infer.kind, infer.attributes["weir.replica"], infer.attributes["weir.pool"]) == (otlp.CLIENT, "r0", SMALL)
    assert [event.name for event in infer.raw.events] == ["first_token"]
    assert infer.start_ns <= infer.raw.events[0].time_unix_nano <= infer.end_ns


async def test_the_write_comes_after_the_root_has_ended(gateway: Gateway, receiver: Receiver) -> None:
    trace_id = await ask(gateway, unique())
    trace = await receiver.trace(trace_id, 8)
    root = next(span for span in trace if "weir.request" in span.attributes)
    write = next(span for span in trace if span.name == "cache.write")
    assert write.parent_id == root.span_id
    assert write.stage == "cache"
    assert write.raw.status.code == 0


async def test_the_callers_trace_is_continued(gateway: Gateway, receiver: Receiver) -> None:
    trace_id, parent = secrets.token_hex(16), secrets.token_hex(8)
    assert await ask(gateway, unique(), {"traceparent": f"00-{trace_id}-{parent}-01"}) == trace_id
    root, _ = parts(await receiver.trace(trace_id, 7))
    assert root.parent_id == parent


async def test_a_refused_request_has_a_root_too(gateway: Gateway, receiver: Receiver) -> None:
    body = json.dumps({"model": "nobody", "messages": unique()}).encode()
    _, headers, _ = await asyncio.to_thread(gateway.ask, "POST", "/v1/chat/completions", body)
    root, _ = parts(await receiver.trace(headers["x-request-id"], 3))
    assert root.attributes["weir.status"] == "rejected"
    assert root.attributes["http.response.status_code"] == 404
    assert root.attributes["error.type"] == "model_not_found"


async def test_a_request_that_was_left_is_cancelled_where_it_was(
    serve: Serve, start_double: StartDouble, receiver: Receiver
) -> None:
    double = await start_double()
    double.gate.clear()  # the answer has no end
    gateway = await asyncio.to_thread(serve, a_snapshot(double.address))
    trace_id = secrets.token_hex(16)
    task = asyncio.ensure_future(ask(gateway, unique(), {"traceparent": f"00-{trace_id}-{'1' * 16}-01"}, temperature=1))
    await eventually_async(lambda: double.at_once == 1)
    task.cancel()
    root, stages = parts(await receiver.trace(trace_id, 5))
    assert root.attributes["weir.status"] == "cancelled"
    assert root.attributes["weir.error_stage"] == "model"
    assert stages[-1].end_ns == root.end_ns
    assert attempts(stages) == [("r0", 1, "client_disconnected", False, 0)], "no failure of the replica"


def attempts(trace: list[Received]) -> list[tuple[str, int, str, bool, int]]:
    """(replica, attempt, error.type, retried, status code) of each attempt, in order."""
    spans = sorted((span for span in trace if span.name == "model.infer"), key=lambda span: span.start_ns)
    assert all((span.kind, span.stage, span.attributes["weir.pool"]) == (otlp.CLIENT, "model", SMALL) for span in spans)
    return [
        (
            str(span.attributes["weir.replica"]),
            int(span.attributes["weir.attempt"]),
            str(span.attributes.get("error.type", "")),
            bool(span.attributes.get("weir.retried", False)),
            span.raw.status.code,
        )
        for span in spans
    ]


async def test_an_attempt_that_failed_is_a_span_of_its_own_replica(
    serve: Serve, receiver: Receiver, session_triton: Triton, own_triton: tuple[Triton, Managed]
) -> None:
    """One replica hangs and then dies with a request in it, which the other one answers."""
    doomed, process = own_triton
    gateway = await asyncio.to_thread(serve, a_snapshot(session_triton.grpc, doomed.grpc))
    await eventually_async(lambda: asyncio.to_thread(lambda: gateway.ready()["pools"][SMALL]["ready"] == 2))
    os.killpg(process.pid, signal.SIGSTOP)
    try:
        ids = [secrets.token_hex(16) for _ in range(4)]  # each replica gets one at least
        requests = [
            asyncio.ensure_future(ask(gateway, unique(), {"traceparent": f"00-{one}-{'1' * 16}-01"})) for one in ids
        ]
        await asyncio.wait(requests, return_when=asyncio.FIRST_COMPLETED)
        hung_s = 0.3
        await asyncio.sleep(hung_s)  # what the failed attempt takes
    finally:
        process.kill()
    await asyncio.gather(*requests)
    traces = sorted([await receiver.trace(one, 6) for one in ids], key=len)
    assert attempts(traces[0]) == [("r0", 1, "", False, 0)]
    assert attempts(traces[-1]) == [("r1", 1, "unreachable", True, otlp.ERROR), ("r0", 2, "", False, 0)]
    first, second = sorted((span for span in traces[-1] if span.name == "model.infer"), key=lambda span: span.start_ns)
    assert first.end_ns - first.start_ns >= hung_s * 1e9
    assert first.end_ns == second.start_ns
    root, stages = parts(traces[-1])
    assert root.attributes["weir.replica"] == "r0"
    assert sum(span.end_ns - span.start_ns for span in stages) == root.end_ns - root.start_ns


@pytest.mark.parametrize(
    ("headers", "timeout_ms", "error", "status"),
    [({}, 100, "timeout", otlp.ERROR), ({"x-stainless-read-timeout": "1"}, 60_000, "deadline_exceeded", otlp.ERROR)],
)
async def test_an_attempt_that_takes_too_long_says_so(
    serve: Serve,
    receiver: Receiver,
    slow_triton: Triton,
    headers: dict[str, str],
    timeout_ms: int,
    error: str,
    status: int,
) -> None:
    snapshot = with_timeouts(small_only(slow_triton), first_token_ms=timeout_ms)
    gateway = await asyncio.to_thread(serve, snapshot)
    trace_id = secrets.token_hex(16)
    with pytest.raises(openai.InternalServerError):
        await ask(gateway, unique(), {"traceparent": f"00-{trace_id}-{'1' * 16}-01", **headers})
    assert attempts(await receiver.trace(trace_id, 5)) == [("r0", 1, error, False, status)]


async def test_coalesced_requests_share_stages_and_name_their_leader(gateway: Gateway, receiver: Receiver) -> None:
    messages = unique()
    ids = await asyncio.gather(*(ask(gateway, messages, model=LARGE, max_tokens=100) for _ in range(4)))
    traces = [parts(await receiver.trace(trace_id)) for trace_id in ids]
    (leader,) = (root for root, _ in traces if root.attributes["weir.cache.outcome"] != "coalesced")
    assert leader.attributes["weir.cache.outcome"] in ("miss", "skipped"), "skipped: Redis was late"
    followers = [(root, stages) for root, stages in traces if root.attributes["weir.cache.outcome"] == "coalesced"]
    assert len(followers) == 3
    for root, stages in followers:
        infer = next(span for span in stages if span.name == "model.infer")
        assert infer.raw.links[0].span_id.hex() == leader.span_id
        assert sum(span.end_ns - span.start_ns for span in stages) == root.end_ns - root.start_ns


async def test_spans_survive_a_receiver_that_is_busy_and_one_that_is_away(
    start_gateway: StartGateway, snapshot: Snapshot
) -> None:
    receiver = await Receiver().start()
    receiver.statuses = [503, 429, 502]
    gateway = start_gateway(snapshot, otlp=receiver.url)
    trace_id = await ask(gateway, unique())
    assert len(await receiver.trace(trace_id, 7, seconds=15)) == 7
    await receiver.stop()
    assert gateway.metric("weir_gateway_traces_dropped_total") == 0


async def test_the_last_spans_are_sent_before_it_ends(start_gateway: StartGateway, snapshot: Snapshot) -> None:
    receiver = await Receiver().start()
    gateway = start_gateway(snapshot, otlp=receiver.url, otlp_interval_ms="60000")
    trace_id = await ask(gateway, unique())
    await asyncio.to_thread(gateway.process.stop)
    assert len([span for span in receiver.spans if span.trace_id == trace_id]) == 7
    await receiver.stop()


async def test_hits_leave_almost_nothing_unattributed(gateway: Gateway, receiver: Receiver) -> None:
    messages = unique()
    await ask(gateway, messages)
    shares = []
    for _ in range(20):
        root, stages = parts(await receiver.trace(await ask(gateway, messages), 4))
        attributed = sum(span.end_ns - span.start_ns for span in stages)
        shares.append(1 - attributed / (root.end_ns - root.start_ns))
    assert median(shares) <= 0.02


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"00",
        b"00-" + b"0" * 32 + b"-1111111111111111-01",
        b"00-" + b"1" * 32 + b"-0000000000000000-01",
        b"ff-" + b"1" * 32 + b"-1111111111111111-01",
        b"00-" + b"G" * 32 + b"-1111111111111111-01",
        b"00-" + b"A" * 32 + b"-1111111111111111-01",
        b"00-" + b"1" * 32 + b"-1111111111111111-01-more",
        b"00_" + b"1" * 32 + b"-1111111111111111-01",
    ],
)
def test_what_is_not_a_traceparent_starts_a_new_trace(bad: bytes) -> None:
    context = spans.context(bad)  # type: ignore[attr-defined]
    assert context.parent_id == b""
    assert any(context.trace_id)


def test_a_later_version_of_traceparent_is_read() -> None:
    context = spans.context(b"01-" + b"1" * 32 + b"-2222222222222222-00-more")  # type: ignore[attr-defined]
    assert (context.trace_id, context.parent_id, context.flags) == (b"\x11" * 16, b"\x22" * 8, b"00")


@given(st.lists(st.integers(0, 50), max_size=6), st.integers(0, 200), st.integers(0, 200), st.integers(0, 50))
def test_stages_close_whatever_the_shared_work_did(gaps: list[int], joined: int, stayed: int, after: int) -> None:
    """A request may join at any time of the leader's work, and leave at any later time."""
    shared, at = [], 0
    for number, gap in enumerate(gaps):
        shared.append(Mark((spans.TOKENIZE, spans.ADMIT, spans.INFER)[number % 3], at))
        at += gap
    trace = Trace(0, None, "chat")
    with patch("inference.observability.spans.now_ns", lambda: joined):
        trace.join(shared)
    trace.leave(joined + stayed)
    trace.end_ns = joined + stayed + after
    intervals = trace.intervals()
    assert sum(end - start for _, start, end in intervals) == trace.end_ns
    assert all(one[2] == two[1] for one, two in pairwise(intervals))


@pytest.mark.parametrize("leader", [None, (b"t" * 16, b"s" * 8)])
def test_a_hedge_that_was_slower_is_a_span_within_the_faster_attempt(leader: tuple[bytes, bytes] | None) -> None:
    shown, hedge = Mark(spans.INFER, 100, "r0", "p"), Mark(spans.INFER, 300, "r1", "p", 2)
    shown.id, hedge.id = b"0" * 8, b"1" * 8
    hedge.error, hedge.end_ns, shown.beside = "overtaken", 580, hedge
    trace = Trace(0, None, "chat")
    trace.coalesced_with = leader
    with patch("inference.observability.spans.now_ns", lambda: 10):
        trace.join([Mark(spans.ADMIT, 10), shown])
    trace.leave(600)
    trace.end_ns = 650
    message = ExportTraceServiceRequest.FromString(otlp.request([encode_trace(trace, 0)], "scope", []))
    first, second = sorted(
        (span for span in message.resource_spans[0].scope_spans[0].spans if span.name == "model.infer"),
        key=lambda span: span.start_time_unix_nano,
    )
    assert (first.start_time_unix_nano, first.end_time_unix_nano) == (100, 600)
    assert (second.start_time_unix_nano, second.end_time_unix_nano) == (300, 580)
    assert (second.parent_span_id, second.status.code, len(second.events)) == (trace.id, 0, 0)
    assert (second.span_id == hedge.id, len(second.links)) == ((True, 0) if leader is None else (False, 1))
    known = {item.key: item.value for item in second.attributes}
    assert (known["weir.replica"].string_value, known["weir.attempt"].int_value) == ("r1", 2)
    assert known["error.type"].string_value == "overtaken"
