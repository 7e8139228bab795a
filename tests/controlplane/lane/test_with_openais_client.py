"""The official client, unchanged, against a real gateway and a real lane."""

import json

import aiohttp
import openai
import pytest

from inference.contract.lane import END_HEADER, KEY_HEADER, LATE, OWN_TIER_HEADER, UNKNOWN_END, authorization, room_of
from inference.contract.snapshot import key_digest
from tests.support.gateway.process import KEY
from tests.support.lane.model_server import INPUT_TOKENS, MODEL, OUTPUT_TOKENS, EchoServer
from tests.support.lane.process import PLACES, TOKEN, Stack, a_line, ended, jsonl, lines_of, submit
from tests.support.wait import eventually_async

pytestmark = pytest.mark.processes


async def test_a_batch_answers_every_line_once_and_says_what_it_used(stack: Stack, model: EchoServer) -> None:
    async with stack.client() as client:
        lines = [a_line(f"line-{number}", f"rivers {number}") for number in range(40)]
        lines[7] = a_line("refused", "status:422")
        batch = await submit(client, lines, metadata={"team": "rivers"})
        assert (batch.object, batch.status, batch.metadata) == ("batch", "validating", {"team": "rivers"})
        batch = await ended(client, batch)
        output, errors = await lines_of(client, batch.output_file_id), await lines_of(client, batch.error_file_id)
        file = await client.files.retrieve(batch.output_file_id or "")

    assert batch.status == "completed"
    assert (batch.request_counts.total, batch.request_counts.completed, batch.request_counts.failed) == (40, 39, 1)
    assert [it["custom_id"] for it in output] == [f"line-{number}" for number in range(40) if number != 7]
    assert all(
        it["response"]["status_code"] == 200
        and it["error"] is None
        and it["response"]["body"]["choices"][0]["message"]["content"] == f"echo rivers {it['custom_id'][5:]}"
        for it in output
    )
    [refused] = errors
    assert (refused["custom_id"], refused["response"]["status_code"]) == ("refused", 422)
    assert (batch.usage.input_tokens, batch.usage.output_tokens) == (39 * INPUT_TOKENS, 39 * OUTPUT_TOKENS)
    assert batch.created_at <= batch.in_progress_at <= batch.finalizing_at <= batch.completed_at < batch.expires_at
    assert (file.purpose, file.bytes > 0, file.status) == ("batch_output", True, "processed")
    assert all(model.asked[f"rivers {number}"] == 1 for number in range(40) if number != 7)


async def test_a_line_is_served_in_the_tier_of_batches_with_its_own_name(stack: Stack) -> None:
    before = stack.gateway.metric("weir_gateway_requests_total", tier="batch")
    async with stack.client() as client:
        await ended(client, await submit(client, [a_line("a", "tier")]))
    assert stack.gateway.metric("weir_gateway_requests_total", tier="batch") == before + 1


async def test_a_worker_alone_is_told_how_much_room_there_is(stack: Stack) -> None:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "room"}]}
    async with aiohttp.ClientSession() as session:
        for headers, room in (
            ({**authorization(TOKEN), KEY_HEADER: key_digest(KEY)}, PLACES),
            ({**authorization(TOKEN), KEY_HEADER: key_digest(KEY), OWN_TIER_HEADER: LATE}, PLACES),
            ({"authorization": f"Bearer {KEY}"}, None),
        ):
            url = f"{stack.gateway.base_url}/chat/completions"
            async with session.post(url, json=body, headers=headers) as answer:
                assert answer.status == 200
                assert room_of({name.lower(): value for name, value in answer.headers.items()}) == room


def test_metrics_of_the_lane_and_of_its_database_can_be_read(stack: Stack) -> None:
    text = stack.ask_lane("/metrics", {})[1].decode()
    assert "weir_lane_lines_total{" in text
    assert "\nweir_lane_jobs_queued 0" in text


async def test_a_batch_that_runs_says_when_it_will_end_once_that_is_known(stack: Stack, model: EchoServer) -> None:
    model.hold()
    async with stack.client() as client:
        latest = client.batches.with_raw_response
        first = await submit(client, [a_line("a", "held")])
        await eventually_async(lambda: model.running == 1)
        assert (await latest.retrieve(first.id)).headers[END_HEADER] == UNKNOWN_END
        batch = await submit(client, [a_line("a", "free"), a_line("b", "held")])

        async def one_is_done() -> bool:
            counts = (await client.batches.retrieve(batch.id)).request_counts
            return counts is not None and counts.completed == 1

        await eventually_async(lambda: model.running == 2)
        await eventually_async(one_is_done)
        end_s = int((await latest.retrieve(batch.id)).headers[END_HEADER])
        assert batch.created_at <= end_s < batch.expires_at
        model.let_go()
        await ended(client, first)
        await ended(client, batch)
        assert END_HEADER not in (await latest.retrieve(batch.id)).headers


async def test_wrong_lines_are_named_before_a_line_runs(stack: Stack, model: EchoServer) -> None:
    lines = [
        a_line("a", "never 1"),
        a_line("a", "never 2"),
        a_line("b", "never 3", url="/v1/embeddings"),
        {"custom_id": "c", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": []}},
        {"custom_id": "d", "url": "/v1/chat/completions", "body": {}},
        a_line("e", "never 4", stream=True),
    ]
    async with stack.client() as client:
        batch = await ended(client, await submit(client, lines))
    assert batch.status == "failed"
    assert [(it.line, it.code) for it in batch.errors.data] == [
        (2, "duplicate_custom_id"),
        (3, "mismatched_url"),
        (4, "missing_model"),
        (5, "invalid_request"),
        (6, "stream_not_supported"),
    ]
    assert (batch.failed_at, batch.output_file_id) != (None, None)
    assert batch.output_file_id is None
    assert not any(text.startswith("never") for text in model.asked)


async def test_files_are_listed_read_and_deleted(stack: Stack) -> None:
    async with stack.client() as client:
        made = [
            await client.files.create(
                file=(f"{number}.txt", b"x" * number),
                purpose="user_data",
                expires_after={"anchor": "created_at", "seconds": 3600},
            )
            for number in range(1, 4)
        ]
        assert all(file.expires_at == file.created_at + 3600 for file in made)
        first = await client.files.list(purpose="user_data", limit=2, order="asc")
        assert ([file.id for file in first.data], first.has_more) == ([file.id for file in made[:2]], True)
        every = [file.id async for file in client.files.list(purpose="user_data", limit=1)]
        assert every == [file.id for file in reversed(made)]
        assert (await client.files.content(made[2].id)).content == b"xxx"
        assert (await client.files.delete(made[2].id)).deleted
        with pytest.raises(openai.NotFoundError):
            await client.files.retrieve(made[2].id)


async def test_a_request_that_is_sent_again_with_its_key_makes_nothing_new(stack: Stack) -> None:
    async with stack.client() as client:

        async def upload(text: bytes) -> str:
            headers = {"Idempotency-Key": "upload-1"}
            return (await client.files.create(file=("in.jsonl", text), purpose="batch", extra_headers=headers)).id

        lines = jsonl([a_line("a", "once")])
        file_id, again = await upload(lines), await upload(lines)
        assert file_id == again
        with pytest.raises(openai.ConflictError):
            await upload(jsonl([a_line("b", "once")]))

        async def make(key: str, **metadata: str) -> str:
            batch = await client.batches.create(
                input_file_id=file_id,
                endpoint="/v1/chat/completions",
                completion_window="24h",
                metadata=metadata,
                extra_headers={"Idempotency-Key": key},
            )
            return batch.id

        made = {await make("batch-1"), await make("batch-1"), await make("batch-2")}
        assert len(made) == 2
        with pytest.raises(openai.ConflictError):
            await make("batch-1", other="yes")
        for name in made:  # the next test holds back whatever is under way
            await ended(client, await client.batches.retrieve(name))


async def test_a_cancelled_batch_keeps_what_it_has(stack: Stack, model: EchoServer) -> None:
    model.hold()
    try:
        async with stack.client() as client:
            batch = await submit(client, [a_line(f"{number}", f"held {number}") for number in range(60)])
            await eventually_async(lambda: any(model.asked[f"held {number}"] for number in range(60)))
            assert (await client.batches.cancel(batch.id)).status == "cancelling"
            batch = await ended(client, batch)
            await eventually_async(lambda: model.running == 0)
            errors = await lines_of(client, batch.error_file_id)
    finally:
        model.let_go()
    assert (batch.status, batch.output_file_id) == ("cancelled", None)
    assert (batch.request_counts.total, batch.request_counts.completed, batch.request_counts.failed) == (60, 0, 60)
    assert {it["error"]["code"] for it in errors} == {"batch_cancelled"}
    assert [it["custom_id"] for it in errors] == [f"{number}" for number in range(60)]


async def test_wrong_requests_are_answered_with_what_is_wrong(stack: Stack) -> None:
    async with stack.client() as client:
        file = await client.files.create(file=("in.jsonl", jsonl([a_line("a", "x")])), purpose="batch")
        other = await client.files.create(file=("in.txt", b"text"), purpose="user_data")
        given = {"input_file_id": file.id, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        for change, param in (
            ({"endpoint": "/v1/videos"}, "endpoint"),
            ({"completion_window": "1h"}, "completion_window"),
            ({"metadata": {"k" * 65: "v"}}, "metadata"),
            ({"metadata": {str(number): "v" for number in range(17)}}, "metadata"),
            ({"input_file_id": other.id}, "input_file_id"),
            ({"output_expires_after": {"anchor": "created_at", "seconds": 1}}, "output_expires_after.seconds"),
        ):
            with pytest.raises(openai.BadRequestError) as refused:
                await client.batches.create(**{**given, **change})
            assert refused.value.param == param
        with pytest.raises(openai.BadRequestError):
            await client.files.create(file=("in.jsonl", b"x"), purpose="everything")
        with pytest.raises(openai.ConflictError):
            await client.batches.cancel((await ended(client, await submit(client, [a_line("a", "x")]))).id)


def test_the_lane_answers_nobody_but_the_gateway(stack: Stack) -> None:
    for key in ({"authorization": f"Bearer {KEY}"}, {}):
        status, body = stack.ask_lane("/v1/files", {**key, "x-weir-tenant": "alice"})
        assert (status, json.loads(body)["error"]["code"]) == (401, "invalid_api_key")


def test_no_client_can_speak_as_the_lane(stack: Stack) -> None:
    """The headers that gateway and lane use between them mean nothing from anybody else."""
    assert stack.gateway.get("/v1/batches", KEY, {"x-weir-tenant": "bob", "x-weir-key": "0" * 64})[0] == 200
    asked = json.dumps({"model": "echo", "messages": [{"role": "user", "content": "as bob"}]}).encode()
    assert stack.gateway.ask("POST", "/v1/chat/completions", asked, "", {"x-weir-key": "0" * 64})[0] == 401
