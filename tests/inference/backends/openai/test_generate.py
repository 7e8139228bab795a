"""What an answer of each server becomes."""

import asyncio
from typing import Any

import pytest
from aiohttp import web

from inference.backends.port import Event, ToolCallDelta, Usage
from inference.core.backend_errors import (
    BusyError,
    FailedError,
    InvalidError,
    LostCallError,
    RefusedError,
    UnreachableError,
    UnservedError,
)
from inference.core.question import Question
from inference.wires.http import client
from tests.support.servers.calls import CALL, Connect, StartServer, chat, events_of
from tests.support.servers.standins import EMBEDDING, KINDS, SGLang
from tests.support.wait import eventually_async

ALL = sorted(KINDS)
USAGE = Usage(7, 3)


@pytest.mark.parametrize("kind", ALL)
async def test_a_stream_is_its_tokens_and_the_last_has_the_usage(
    start_server: StartServer, connect: Connect, kind: str
) -> None:
    server = await start_server(kind)
    model = connect(server.url)
    await model.detect(5)
    events = await events_of(await model.generate(chat(temperature=0.5), CALL))
    assert [event.text for event in events if event.text] == list(server.tokens)
    assert (events[-1].finish_reason, events[-1].usage) == ("stop", USAGE)
    assert sum(event.tokens for event in events) == 3
    assert server.bodies[0]["stream_options"] == {"include_usage": True}
    assert server.headers[0]["traceparent"] == CALL.traceparent.decode()
    await eventually_async(lambda: model.link.idle)


@pytest.mark.parametrize("kind", ALL)
async def test_reasoning_and_tool_calls_arrive_in_their_parts(
    start_server: StartServer, connect: Connect, kind: str
) -> None:
    server = await start_server(kind)
    server.tokens, server.reasoning, server.tool_call = (), "hm", ("weather", '{"city":"Paris"}')
    model = connect(server.url)
    await model.detect(5)
    tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
    events = await events_of(await model.generate(chat(tools=(tool,), tool_choice="required"), CALL))
    assert events[0] == Event(reasoning="hm")
    assert [event.tool_calls[0] for event in events if event.tool_calls] == [
        ToolCallDelta(0, "call-1", "weather", ""),
        ToolCallDelta(0, "", "", '{"ci'),
        ToolCallDelta(0, "", "", 'ty":"Paris"}'),
    ]
    assert events[-1].finish_reason == "tool_calls"
    assert server.bodies[0]["tools"] == [tool]


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
    assert await stream.next() == [Event("A ")]
    if kind == "trtllm":  # it says nothing
        assert not await stream.next()
    else:
        with pytest.raises(FailedError):
            await stream.next()
    assert not await stream.next()


async def test_a_connection_that_is_cut_midway(start_server: StartServer, connect: Connect) -> None:
    server = await start_server("sglang")
    server.fault = "cut midway"
    stream = await connect(server.url).generate(chat(), CALL)
    with pytest.raises(UnreachableError):
        await events_of(stream)


async def test_an_end_without_a_finish_reason_is_none(start_server: StartServer, connect: Connect) -> None:
    server = await start_server("sglang")
    server.fault = "no finish reason"
    events = await events_of(await connect(server.url).generate(chat(), CALL))
    assert not any(event.finish_reason for event in events)


async def test_an_answer_given_up_before_its_first_token_may_be_tried_elsewhere(
    start_server: StartServer, connect: Connect
) -> None:
    server = await start_server("sglang")
    server.fault = "abort"
    with pytest.raises(RefusedError):
        await events_of(await connect(server.url).generate(chat(), CALL))


async def test_an_answer_given_up_later_has_failed(start_server: StartServer, connect: Connect) -> None:
    server = await start_server("sglang")
    server.finish_reason = "abort"
    with pytest.raises(FailedError):
        await events_of(await connect(server.url).generate(chat(), CALL))


@pytest.mark.parametrize("fault", ["", "silent at the end"])
async def test_a_server_without_usage_does_not_hold_the_answer_up(
    start_server: StartServer, connect: Connect, fault: str
) -> None:
    server = await start_server("sglang")
    server.sends_usage, server.fault = False, fault
    model = connect(server.url)
    events = await events_of(await model.generate(chat(), CALL))
    assert (events[-1].finish_reason, events[-1].usage) == ("stop", None)
    await eventually_async(lambda: model.link.idle and not server.running)


async def test_cancelling_closes_the_connection(start_server: StartServer, connect: Connect) -> None:
    server = await start_server("sglang")
    server.gate.clear()
    model = connect(server.url)
    stream = await model.generate(chat(), CALL)
    assert await stream.next() == [Event("A ")]
    stream.cancel()
    await eventually_async(lambda: server.aborted == 1 and not server.running)
    stream.cancel()
    assert model.link.idle


async def test_leaving_before_the_answer_begins_closes_the_connection(
    start_server: StartServer, connect: Connect
) -> None:
    server = await start_server("sglang")
    server.fault = "mute"
    model = connect(server.url)
    call = asyncio.create_task(model.generate(chat(), CALL))
    await eventually_async(lambda: server.running == 1)
    call.cancel()
    await eventually_async(lambda: server.aborted == 1 and model.link.idle)


async def test_a_call_whose_connection_is_dropped_is_lost(
    start_server: StartServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "KEPT_S", 600.0)
    server = await start_server("sglang")
    model = connect(server.url)
    for _ in range(2):  # on a new connection, and on one that was kept
        server.fault = "drops"
        with pytest.raises(LostCallError):
            await model.generate(chat(), CALL)
        server.fault = ""
        await events_of(await model.generate(chat(), CALL))
        await eventually_async(lambda: model.link.idle)


async def test_a_server_that_is_away_is_unreachable(start_server: StartServer, connect: Connect) -> None:
    server = await start_server("sglang")
    await server.stop()
    with pytest.raises(UnreachableError):
        await connect(server.url).generate(chat(), CALL)
    await server.start()


async def test_a_model_that_the_server_has_unloaded_is_not_looked_for_there(
    start_server: StartServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """vLLM unloads adapters while it runs, and says so as here. A route that it has not is another 404."""
    server = await start_server("sglang")
    model = connect(server.url)
    await model.detect(5)
    server.model = "other"
    for error, kind in (
        ({"message": "The model `m` does not exist.", "type": "NotFoundError", "param": "model"}, UnreachableError),
        ({"detail": "Not Found"}, FailedError),
    ):
        body = {"error": error | {"code": 404}} if "message" in error else error
        monkeypatch.setattr(server, "error", lambda *_, body=body: web.json_response(body, status=404))
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
    with pytest.raises(UnservedError):
        await model.generate(chat(), CALL)
    server.fault = "no model"
    with pytest.raises(FailedError):
        await model.generate(chat(), CALL)


async def test_what_streams_badly_is_asked_for_as_a_whole(start_server: StartServer, connect: Connect) -> None:
    server = await start_server("llamacpp")
    server.tool_call = ("weather", "{}")
    model = connect(server.url)
    await model.detect(5)
    tool = {"type": "function", "function": {"name": "weather"}}
    events = await events_of(await model.generate(chat(tools=(tool,), logprobs=1), CALL))
    assert events == [
        Event("A weir.", 0, "stop", "", (ToolCallDelta(0, "call-1", "weather", "{}"),), b"", USAGE),
    ]
    assert server.bodies[0]["stream"] is False


async def test_the_clients_mistake_is_said_in_its_words(start_server: StartServer, connect: Connect) -> None:
    server = await start_server("trtllm")
    with pytest.raises(InvalidError, match="top_k_magic") as wrong:  # not known to be trtllm-serve yet
        server.check = lambda body: "top_k_magic is too large"  # type: ignore[method-assign]
        await connect(server.url).generate(chat(top_p=0.5), CALL)
    assert wrong.value.status == 400


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


@pytest.mark.parametrize(
    ("kind", "question", "sent"),
    [
        ("llamacpp", chat(max_tokens=5), 5),
        ("llamacpp", chat(), 20),
        ("llamacpp", Question(operation="text_completion", prompt=("a",)), 20),
        ("sglang", Question(operation="text_completion", prompt=("a",)), None),  # 16 by itself
    ],
)
async def test_answers_are_limited_as_the_client_or_the_model_says(
    start_server: StartServer, connect: Connect, kind: str, question: Question, sent: int | None
) -> None:
    server = await start_server(kind)
    model = connect(server.url)
    await model.detect(5)
    await events_of(await model.generate(question, CALL))
    assert server.bodies[-1].get("max_tokens") == sent


@pytest.mark.parametrize(
    ("limit", "prompt_tokens", "is_counted", "true_tokens", "sent"),
    [
        (2_048, 7, False, 7, [None]),  # no more than the context holds: there is nothing to hold
        (2_045, 7, True, 7, [None]),  # what is left of the context is less
        (1_500, 800, False, 200, [1_500]),  # an estimate that is too high does not lift the owner's limit
        (1_500, 200, False, 800, [1_500, None]),  # one that is too low costs a second call
    ],
)
async def test_the_owners_limit_holds_unless_the_context_is_the_tighter_one(
    start_server: StartServer,
    connect: Connect,
    limit: int,
    prompt_tokens: int,
    is_counted: bool,
    true_tokens: int,
    sent: list[int | None],
) -> None:
    server = await start_server("llamacpp")  # its context is 2,048 tokens

    def check(body: dict[str, Any]) -> str:
        too_long = true_tokens + body.get("max_tokens", 0) > 2_048
        return "the request exceeds the available context size" if too_long else ""

    server.check = check  # type: ignore[method-assign]
    model = connect(server.url)
    await model.detect(5)
    call = CALL._replace(max_tokens=limit, prompt_tokens=prompt_tokens, prompt_is_counted=is_counted)
    assert await events_of(await model.generate(chat(), call))
    assert [body.get("max_tokens") for body in server.bodies] == sent


async def test_a_limit_of_the_client_that_the_context_has_no_room_for_is_refused(
    start_server: StartServer, connect: Connect
) -> None:
    server = await start_server("llamacpp")
    server.check = lambda _: "the request exceeds the available context size"  # type: ignore[method-assign]
    model = connect(server.url)
    for question in (chat(max_tokens=5), chat()):  # without a limit the prompt itself is too long
        with pytest.raises(InvalidError):
            await model.generate(question, CALL)
    assert [body.get("max_tokens") for body in server.bodies] == [5, 20, None]
