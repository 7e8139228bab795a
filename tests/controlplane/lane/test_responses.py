"""Responses that run in the background: the official client, unchanged, against a real gateway and a real lane."""

from functools import partial
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from openai.types.responses import Response

from tests.support.gateway.process import KEY, OTHER_KEY
from tests.support.lane.model_server import MODEL, OUTPUT_TOKENS, EchoServer
from tests.support.lane.process import Stack, a_line, answered, ended, submit
from tests.support.wait import eventually_async

pytestmark = pytest.mark.processes


async def respond(client: AsyncOpenAI, text: str, **options: Any) -> Response:
    return await client.responses.create(model=MODEL, input=text, background=True, **options)


async def test_a_response_is_queued_at_once_and_answered_by_its_id(stack: Stack, model: EchoServer) -> None:
    model.hold()
    try:
        async with stack.client() as client:
            given = {"instructions": "Be brief.", "metadata": {"team": "rivers"}, "max_output_tokens": 9}
            first = await respond(client, "a river", store=True, temperature=0.5, **given)
            assert (first.status, first.background, first.object) == ("queued", True, "response")
            assert (first.instructions, first.metadata, first.max_output_tokens, first.temperature) == (
                "Be brief.",
                {"team": "rivers"},
                9,
                0.5,
            )
            assert first.output == [] and first.usage is None
            await eventually_async(lambda: model.asked["a river"] == 1)
            assert (await client.responses.retrieve(first.id)).status == "in_progress"
            model.let_go()
            last = await answered(client, first)
            cut = await answered(client, await respond(client, "long rivers"))
    finally:
        model.let_go()
    assert first.id.startswith("resp_")
    assert (last.id, last.created_at, last.background, last.metadata) == (
        first.id,
        first.created_at,
        True,
        {"team": "rivers"},
    )
    assert (last.status, last.output_text, last.completed_at is not None) == ("completed", "echo a river", True)
    assert last.usage is not None and last.usage.output_tokens == OUTPUT_TOKENS
    assert (cut.status, cut.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert model.asked["a river"] == 1


async def test_servers_get_the_request_as_it_came_without_what_the_lane_does(stack: Stack, model: EchoServer) -> None:
    async with stack.client() as client:
        options = {"background_options": {"completion_window": "2h"}, "extra_body": {"of_the_server": [1, {"a": None}]}}
        assert (await answered(client, await respond(client, "as it came", **options))).status == "completed"
    assert model.body == {"model": MODEL, "input": "as it came", "of_the_server": [1, {"a": None}]}


async def test_an_answer_that_is_written_oddly_is_read_and_a_page_is_none(stack: Stack) -> None:
    async with stack.client() as client:
        odd, page = [await answered(client, await respond(client, text)) for text in ("odd rivers", "page")]
    assert (odd.status, odd.output_text) == ("completed", "echo odd rivers")
    assert odd.usage is not None and odd.usage.output_tokens == OUTPUT_TOKENS
    assert (page.status, page.error and page.error.message) == (
        "failed",
        "The model's server answered 200 with what is no response.",
    )


async def test_the_window_decides_the_tier(stack: Stack) -> None:
    async with stack.client() as client:
        for window, tier in (("soonest", "standard"), ("8h", "batch")):
            before = stack.gateway.metric("weir_gateway_requests_total", tier=tier)
            await answered(client, await respond(client, window, background_options={"completion_window": window}))
            assert stack.gateway.metric("weir_gateway_requests_total", tier=tier) == before + 1


async def test_a_response_does_not_wait_behind_batches(stack: Stack, model: EchoServer) -> None:
    model.hold()
    try:
        async with stack.client() as client:
            batch = await submit(client, [a_line(f"{it}", f"before {it}") for it in range(100)])
            await eventually_async(lambda: model.running >= 16)
            response = await respond(client, "hurry")
            await eventually_async(lambda: model.asked["hurry"] == 1)
            assert (await client.batches.retrieve(batch.id)).request_counts.completed == 0
            model.let_go()
            assert (await answered(client, response)).status == "completed"
            await ended(client, batch)
    finally:
        model.let_go()


async def test_what_the_gateway_refuses_is_a_failed_response_with_its_reason(stack: Stack) -> None:
    async with stack.client() as client:
        refused = await answered(client, await respond(client, "status:422"))
        with pytest.raises(openai.NotFoundError, match="'nothing'") as unknown:
            await client.responses.create(model="nothing", input="x", background=True)
    assert (refused.status, refused.error.code, refused.error.message) == ("failed", "422", "no")
    assert unknown.value.code == "model_not_found"


async def test_what_was_asked_is_listed_as_items(stack: Stack) -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "depth", "arguments": "{}"}
    given: list[Any] = [
        {"role": "user", "content": "free and deep"},
        {"role": "assistant", "content": "Asking."},
        call,
        {"type": "function_call_output", "call_id": "c", "output": "3 m"},
        {"role": "user", "content": [{"type": "input_text", "text": "And wide?"}]},
    ]
    async with stack.client() as client:
        response = await client.responses.create(model=MODEL, input=given, background=True)
        listing = client.responses.input_items.list
        every = [it async for it in await listing(response.id, order="asc", limit=2)]
        assert [it.id for it in every] == [it.id async for it in await listing(response.id, limit=100)][::-1]
        texts = [it.content[0] for it in every if it.type == "message"]
        assert [(it.type, it.text) for it in texts] == [
            ("input_text", "free and deep"),
            ("output_text", "Asking."),
            ("input_text", "And wide?"),
        ]
        assert every[2].model_dump(exclude_unset=True) == call and every[3].output == "3 m"
        assert len({it.id for it in every}) == len(given)
        [single] = [it async for it in await listing((await respond(client, "free and short")).id)]
        assert (single.role, single.content[0].text) == ("user", "free and short")
        with pytest.raises(openai.BadRequestError):
            await listing(response.id, after="no item")
        async with stack.client(key=OTHER_KEY) as other:
            with pytest.raises(openai.NotFoundError):
                await other.responses.input_items.list(response.id)
        await answered(client, response)  # or the next test, which holds answers back, would hold this one too


async def test_a_response_goes_on_from_another_with_all_that_was_said_before(stack: Stack, model: EchoServer) -> None:
    try:
        async with stack.client() as client, stack.client(key=OTHER_KEY) as other:
            first = await answered(client, await respond(client, "one", instructions="Be brief."))
            second = await answered(client, await respond(client, "two", previous_response_id=first.id))
            assert second.previous_response_id == first.id and first.previous_response_id is None
            assert second.output_text.endswith("'content': 'two'}]")
            await client.responses.delete(first.id)
            stream: Any = await respond(client, "three", previous_response_id=second.id, stream=True)
            events = [it async for it in stream]
            assert events[-1].response.previous_response_id == events[0].response.previous_response_id == second.id
            said = ["one", "echo one", "two", second.output_text, "three"]
            sent = [it["content"] for it in model.body["input"]]
            assert [it if isinstance(it, str) else it[0]["text"] for it in sent] == said and model.body["stream"]
            assert not {"previous_response_id", "instructions"} & set(model.body)
            listed = await client.responses.input_items.list(events[0].response.id, order="asc")
            assert [it.content[0].text async for it in listed] == said
            failed = await answered(client, await respond(client, "status:422"))
            for caller, name in ((client, first.id), (other, second.id), (client, "resp_unknown"), (client, "r" * 999)):
                with pytest.raises(openai.NotFoundError) as unknown:
                    await respond(caller, "x", previous_response_id=name)
                assert unknown.value.param == "previous_response_id"
            model.hold()
            waiting = await respond(client, "waits")
            for name in (failed.id, waiting.id):
                with pytest.raises(openai.BadRequestError, match="has no answer to go on from"):
                    await respond(client, "x", previous_response_id=name)
            model.let_go()
            await answered(client, waiting)  # or the next test, which holds answers back, would hold this one too
    finally:
        model.let_go()


async def test_a_cancelled_or_deleted_response_ends_at_once(stack: Stack, model: EchoServer) -> None:
    model.hold()
    try:
        async with stack.client() as client:
            first, second = await respond(client, "paused 1"), await respond(client, "paused 2")
            await eventually_async(lambda: model.asked["paused 1"] + model.asked["paused 2"] == 2)
            cancelled = await client.responses.cancel(first.id)
            again = await client.responses.cancel(first.id)
            assert (cancelled.status, again.status, cancelled.error) == ("cancelled", "cancelled", None)
            await client.responses.delete(second.id)
            await eventually_async(lambda: model.running == 0)
            model.let_go()
            for gone in (second.id, "resp_unknown"):
                for call in (client.responses.retrieve, client.responses.cancel, client.responses.delete):
                    with pytest.raises(openai.NotFoundError):
                        await call(gone)
            done = await answered(client, await respond(client, "done"))
            with pytest.raises(openai.ConflictError):
                await client.responses.cancel(done.id)
            assert (await client.responses.retrieve(first.id)).status == "cancelled"
    finally:
        model.let_go()


async def test_nobody_sees_what_is_anothers(stack: Stack) -> None:
    async with stack.client(key=KEY) as alice, stack.client(key=OTHER_KEY) as bob:
        response = await respond(alice, "mine")
        for call in (bob.responses.retrieve, bob.responses.cancel, bob.responses.delete):
            with pytest.raises(openai.NotFoundError):
                await call(response.id)
        with pytest.raises(openai.NotFoundError):
            await bob.responses.retrieve(response.id, stream=True)
        with pytest.raises(openai.NotFoundError):
            await bob.batches.retrieve(response.id)
        assert (await answered(alice, response)).output_text == "echo mine"
        assert not [it for it in (await alice.batches.list()).data if it.id == response.id]


async def test_a_request_that_is_sent_again_with_its_key_makes_nothing_new(stack: Stack, model: EchoServer) -> None:
    async with stack.client() as client:
        headers = {"Idempotency-Key": "response-1"}
        made = {(await respond(client, "only this", extra_headers=headers)).id for _ in range(2)}
        [name] = made
        with pytest.raises(openai.ConflictError):
            await respond(client, "another", extra_headers=headers)
        await eventually_async(lambda: model.answered["only this"] == 1)
        assert (await client.responses.retrieve(name)).status in ("in_progress", "completed")


async def test_such_a_request_may_go_on_from_a_response_that_was_deleted_since(stack: Stack) -> None:
    async with stack.client() as client:
        first = await answered(client, await respond(client, "first"))
        again = partial(
            respond, client, "goes on", previous_response_id=first.id, extra_headers={"Idempotency-Key": "goes-on-1"}
        )
        made = await again()
        await client.responses.delete(first.id)
        assert (await again()).id == made.id
        await answered(client, made)


@pytest.mark.parametrize(
    ("change", "param", "code"),
    [
        ({"store": False}, "store", "invalid_value"),
        ({"stream": True, "background_options": {"completion_window": "2h"}}, "stream", "invalid_value"),
        ({"model": ""}, "model", "missing_model"),
        ({"metadata": {"k" * 65: "v"}}, "metadata", "invalid_value"),
        ({"metadata": {"k": 1}}, "metadata[...]", "invalid_value"),
        (
            {"background_options": {"completion_window": "24h"}},
            "background_options.completion_window",
            "invalid_value",
        ),
        ({"background_options": 1}, "background_options", "invalid_value"),
    ],
)
async def test_a_wrong_request_is_answered_with_what_is_wrong(
    stack: Stack, change: dict[str, Any], param: str, code: str
) -> None:
    async with stack.client() as client:
        given = {"model": MODEL, "input": "x", "background": True, **change}
        with pytest.raises(openai.BadRequestError) as refused:
            await client.responses.create(**given)
        assert (refused.value.param, refused.value.code) == (param, code)
