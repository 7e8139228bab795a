"""What is handed on of each server's answers, and what the gateway makes of them."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from aiohttp import web

from inference.backends.openai import stream as stream_of_http
from inference.backends.port import Event, Usage
from inference.core.backend_errors import (
    BusyError,
    FailedError,
    InvalidError,
    LostCallError,
    RefusedError,
    UnreachableError,
)
from inference.core.passing.request import made
from inference.wires.http import client
from tests.support.servers.calls import CALL, Connect, StartServer, chat, events_of
from tests.support.servers.standins import ALL_KINDS, EMBEDDING, KINDS, MODEL, ModelServer, SGLang
from tests.support.wait import eventually_async

ALL = sorted(KINDS)
USAGE = Usage(7, 3)


@pytest.fixture
async def sglang(start_server: StartServer) -> ModelServer:
    return await start_server("sglang")


def said(events: Sequence[Event]) -> list[dict[str, Any]]:
    """The chunks that the client gets."""
    lines = b"".join(event.raw for event in events).replace(b"\r\n", b"\n").split(b"\n\n")
    data = [line.removeprefix(b"data: ") for line in lines if line.startswith(b"data: {")]
    return [json.loads(each) for each in data]


def text_of(events: Sequence[Event]) -> str:
    choices = [choice for chunk in said(events) for choice in chunk["choices"]]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


@pytest.mark.parametrize("kind", ALL)
async def test_a_stream_is_handed_on_and_the_counts_that_the_gateway_asked_for_are_its_own(
    start_server: StartServer, connect: Connect, kind: str
) -> None:
    server = await start_server(kind)
    model = connect(server.url)
    await model.detect(5)
    for options, chunks in (({}, 5), ({"stream_options": {"include_usage": True}}, 6)):
        stream = await model.generate(chat(temperature=0.5, **options), CALL)
        events = await events_of(stream)
        assert (text_of(events), len(said(events))) == ("A weir.", chunks)
        assert events[-1].raw.endswith(b"data: [DONE]\n\n") or kind == "trtllm"
        assert [event.usage for event in events if event.usage] == [USAGE]
        assert [event.finish_reason for event in events if event.finish_reason] == ["stop"]
        assert sum(event.tokens for event in events) == 3
        assert server.bodies[-1]["stream_options"] == {"include_usage": True}
        assert server.headers[-1]["traceparent"] == CALL.traceparent.decode()
        assert stream.head.streams
    await eventually_async(lambda: model.link.idle)


@pytest.mark.parametrize("kind", sorted(ALL_KINDS))
async def test_no_tenant_meets_the_prefixes_of_another_where_the_pool_keeps_them_apart(
    start_server: StartServer, connect: Connect, kind: str
) -> None:
    server = await start_server(kind)
    apart, shared = connect(server.url, salt_prefix_cache=True), connect(server.url)
    given: list[dict[str, Any]] = [{}, {"cache_salt": "mine"}, {"cache_salt": "other"}]
    for model in (apart, shared):
        await model.detect(5)
        for tenant in ("alice", "bob"):
            for fields in given if kind in ("vllm", "sglang") else given[:1]:
                for _ in range(2):
                    await events_of(await model.generate(chat(**fields), CALL._replace(tenant=tenant)))
    salts = [body.get("cache_salt") for body in server.bodies]
    half = len(salts) // 2
    if kind in ("vllm", "sglang"):
        assert len(set(salts[:half])) == 6, "one for each tenant and what it has given"
        assert salts[:half:2] == salts[1:half:2]
        assert salts[half::2] == [None, "mine", "other"] * 2
    else:
        assert not any(salts), "it would refuse it, or ignore it"


@pytest.mark.parametrize("kind", ALL)
async def test_reasoning_and_tool_calls_count_as_tokens(start_server: StartServer, connect: Connect, kind: str) -> None:
    server = await start_server(kind)
    server.tokens, server.reasoning, server.tool_call = (), "hm", ("weather", '{"city":"Paris"}')
    model = connect(server.url)
    events = await events_of(await model.generate(chat(), CALL))
    assert sum(event.tokens for event in events) == 4
    assert "tool_calls" in [event.finish_reason for event in events]


async def test_clients_get_the_name_by_which_they_ask(start_server: StartServer, connect: Connect) -> None:
    server = await start_server("vllm")
    model = connect(server.url)
    query = made("/v1/chat/completions", "chat", chat().document | {"model": "mine"})
    events = await events_of(await model.generate(query, CALL))
    assert {chunk["model"] for chunk in said(events) if "model" in chunk} == {"mine"}
    assert server.bodies[-1]["model"] == MODEL


@pytest.mark.parametrize("kind", ALL)
async def test_a_full_server_is_busy_and_a_broken_one_has_failed(
    start_server: StartServer, connect: Connect, kind: str
) -> None:
    server = await start_server(kind)
    model = connect(server.url)
    await model.detect(5)
    server.fault = "busy"
    with pytest.raises(BusyError):
        await model.generate(chat(), CALL)
    server.fault = "500"
    with pytest.raises(FailedError):
        await model.generate(chat(), CALL)
    server.fault = ""
    server.model = "another"  # the pool's model has gone: nothing that the client could mend
    with pytest.raises(FailedError, match=r"HTTP 404 \(it said \d+ characters\)") as gone:
        await model.generate(chat(), CALL)
    gone.value.quote()
    assert "does not exist" in str(gone.value)
    await eventually_async(lambda: model.link.idle)


@pytest.mark.parametrize("kind", ALL)
async def test_a_stream_that_fails_midway_is_no_answer(start_server: StartServer, connect: Connect, kind: str) -> None:
    server = await start_server(kind)
    server.fault = "fails midway"
    stream = await connect(server.url, server=kind).generate(chat(), CALL)
    assert text_of(await stream.next()) == "A "
    with pytest.raises(FailedError) as failed:
        await events_of(stream)
    assert not await stream.next()
    assert (failed.value.answer is None) == (kind == "trtllm"), (
        "which says nothing; the others' own error has been given"
    )


@pytest.mark.parametrize(
    ("fault", "finish_reason", "error", "says"),
    [
        ("cut midway", "stop", UnreachableError, ""),
        ("no finish reason", "stop", FailedError, "without saying why"),
        ("abort", "stop", RefusedError, ""),  # before its first token: it may be tried elsewhere
        ("", "abort", FailedError, ""),
        ("fails with 200", "stop", FailedError, "an error with status 200"),
    ],
)
async def test_an_answer_that_does_not_end_as_it_should_is_none(
    sglang: ModelServer, connect: Connect, fault: str, finish_reason: str, error: type[Exception], says: str
) -> None:
    sglang.fault, sglang.finish_reason = fault, finish_reason
    with pytest.raises(error, match=says):
        await events_of(await connect(sglang.url).generate(chat(stream=fault != "fails with 200"), CALL))


@pytest.mark.parametrize("fault", ["", "silent at the end"])
async def test_a_server_without_usage_does_not_hold_the_answer_up(
    sglang: ModelServer, connect: Connect, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_of_http, "_COUNTS_WITHIN_S", 0.1)
    sglang.sends_usage, sglang.fault = False, fault
    model = connect(sglang.url)
    events = await events_of(await model.generate(chat(), CALL))
    assert [event.finish_reason for event in events if event.finish_reason] == ["stop"]
    assert not any(event.usage for event in events)
    await eventually_async(lambda: model.link.idle and not sglang.running)


async def test_cancelling_closes_the_connection(sglang: ModelServer, connect: Connect) -> None:
    sglang.gate.clear()
    model = connect(sglang.url)
    stream = await model.generate(chat(), CALL)
    assert text_of(await stream.next()) == "A "
    stream.cancel()
    await eventually_async(lambda: sglang.aborted == 1 and not sglang.running)
    stream.cancel()
    assert model.link.idle


async def test_leaving_before_the_answer_begins_closes_the_connection(sglang: ModelServer, connect: Connect) -> None:
    sglang.fault = "mute"
    model = connect(sglang.url)
    call = asyncio.create_task(model.generate(chat(), CALL))
    await eventually_async(lambda: sglang.running == 1)
    call.cancel()
    await eventually_async(lambda: sglang.aborted == 1 and model.link.idle)


async def test_a_call_whose_connection_is_dropped_is_lost(
    sglang: ModelServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "KEPT_S", 600.0)
    model = connect(sglang.url)
    for _ in range(2):  # on a new connection, and on one that was kept
        sglang.fault = "drops"
        with pytest.raises(LostCallError):
            await model.generate(chat(), CALL)
        sglang.fault = ""
        await events_of(await model.generate(chat(), CALL))
        await eventually_async(lambda: model.link.idle)


async def test_a_server_that_is_away_is_unreachable(sglang: ModelServer, connect: Connect) -> None:
    await sglang.stop()
    with pytest.raises(UnreachableError):
        await connect(sglang.url).generate(chat(), CALL)
    await sglang.start()


async def test_a_model_that_the_server_has_unloaded_is_not_looked_for_there(
    sglang: ModelServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """vLLM unloads adapters while it runs, and says so as here. A route that it has not is another 404."""
    model = connect(sglang.url)
    await model.detect(5)
    sglang.model = "other"
    for error, kind in (
        ({"message": "The model `m` does not exist.", "type": "NotFoundError", "param": "model"}, UnreachableError),
        ({"detail": "Not Found"}, FailedError),
    ):
        body = {"error": error | {"code": 404}} if "message" in error else error
        monkeypatch.setattr(sglang, "error", lambda *_, body=body: web.json_response(body, status=404))
        with pytest.raises(kind) as caught:
            await model.generate(chat(), CALL)
        assert caught.value.error_type == "404"
    assert "other" in (await model.detect(5)).misfit


async def test_what_is_missing_where_the_model_is_listed_is_the_route(
    start_server: StartServer, connect: Connect
) -> None:
    server = await start_server("vllm")
    server.operations = EMBEDDING
    model = connect(server.url)
    with pytest.raises(InvalidError) as missing:
        await model.generate(chat(), CALL)
    assert missing.value.answer is not None
    assert (missing.value.answer.status, json.loads(missing.value.answer.body)) == (404, {"detail": "Not Found"})
    server.fault = "no model"
    with pytest.raises(FailedError):
        await model.generate(chat(), CALL)


@pytest.mark.parametrize("kind", ALL)
async def test_errors_are_the_server_s_own(start_server: StartServer, connect: Connect, kind: str) -> None:
    server = await start_server(kind)
    server.check = lambda body: "top_k_magic is too large"  # type: ignore[method-assign]
    with pytest.raises(InvalidError) as wrong:
        await connect(server.url).generate(chat(top_p=0.5), CALL)
    body = server.error(400, "top_k_magic is too large").body
    assert wrong.value.answer is not None
    assert (wrong.value.answer.status, wrong.value.answer.body) == (400, body)
    assert dict(wrong.value.answer.headers)[b"content-type"].startswith(b"application/json")


async def test_priorities_are_in_the_servers_own_order(start_server: StartServer, connect: Connect) -> None:
    first, last = CALL._replace(priority=1), CALL._replace(priority=3)
    sglang = await start_server("sglang")
    model = connect(sglang.url)
    await model.detect(5)
    await events_of(await model.generate(chat(), first))
    assert "priority" not in sglang.bodies[-1]  # it refuses it unless it is enabled
    assert isinstance(sglang, SGLang)
    sglang.priorities = True
    await model.detect(5)
    dynamo = await start_server("dynamo")
    other = connect(dynamo.url)
    await other.detect(5)
    for call in (first, last):
        await events_of(await model.generate(chat(), call))
        await events_of(await other.generate(chat(), call))
    assert sglang.bodies[-2]["priority"] > sglang.bodies[-1]["priority"]
    urgent, patient = (int(headers["x-dynamo-request-priority"]) for headers in dynamo.headers[-2:])
    assert urgent > patient


async def test_an_answer_that_is_not_streamed_is_whole(start_server: StartServer, connect: Connect) -> None:
    server = await start_server("llamacpp")
    model = connect(server.url)
    query = made("/v1/chat/completions", "chat", {"model": MODEL, "messages": [], "n": 1})
    stream = await model.generate(query, CALL)
    [event] = await events_of(stream)
    assert json.loads(event.raw)["choices"][0]["message"]["content"] == "A weir."
    assert (event.finish_reason, event.usage, stream.head.streams) == ("stop", USAGE, False)
    assert server.bodies[-1] == query.document, "nothing is added"
