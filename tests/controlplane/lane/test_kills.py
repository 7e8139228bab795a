"""Lanes are killed while they run lines: each has one result, few were inferred twice, and counts, files and ledger agree."""

import random
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import openai
import pytest

from controlplane.telemetry.ledger.row import LedgerRow
from deploy.local.ports import free_port
from tests.support.gateway.process import Receiver
from tests.support.lane.model_server import MODEL, EchoServer
from tests.support.lane.nursery import ForkedLane, Nursery
from tests.support.lane.process import Stack, a_fleet, a_line, answered, ended, lines_of, start_stack, submit
from tests.support.lane.s3 import BUCKET, S3, s3
from tests.support.soak import sized
from tests.support.start import Start
from tests.support.telemetry.otlp_payloads import rows_in
from tests.support.wait import eventually_async

LINES, KILLS, PLACES = sized(150, soak=50_000), sized(2, soak=1_000), 8
MIN_DONE, MAX_DONE = sized(20, soak=10), sized(60, soak=60)  # lines that are inferred between two kills

pytestmark = pytest.mark.processes


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """Has what the gateway says of each request."""
    server = await Receiver().start()
    yield server
    await server.stop()


@pytest.mark.parametrize("where", [pytest.param("", marks=pytest.mark.soak), f"s3://{BUCKET}/of/kills"])
async def test_each_line_has_one_result_however_often_lanes_are_killed(
    start: Start, tmp_path: Path, receiver: Receiver, where: str
) -> None:
    draw = random.Random(23)
    with ExitStack() as within:
        bucket = within.enter_context(s3()) if where else None
        model = EchoServer(delay_s=0.01).start()
        within.callback(model.stop)
        settings = {"lane_concurrency": str(PLACES), "lane_lease_s": "2", "lane_objects": where}
        stack = start_stack(start, tmp_path, a_fleet(model.url), otlp=receiver.url, **settings)
        nursery = within.enter_context(Nursery(stack.command.env, tmp_path / "lanes.log"))
        lanes = [ForkedLane(nursery, port) for port in (stack.lane_port, free_port())]
        stack.lane.kill()
        for lane in lanes:
            lane.start().wait_ready()
        async with stack.client(max_retries=20) as client:
            batch = await submit(client, [a_line(f"{it}", f"text {it}") for it in range(LINES)])
            responses = []
            for kill in range(KILLS):
                wanted = min(model.answered.total() + draw.randint(MIN_DONE, MAX_DONE), LINES - 1)
                await eventually_async(lambda wanted=wanted: model.answered.total() >= wanted)
                key = {"Idempotency-Key": f"{kill}"}
                given = {"model": MODEL, "input": f"response {kill}", "background": True}
                responses.append(await client.responses.create(**given, extra_headers=key))
                killed = lanes[kill % 2]
                killed.kill()
                if kill % 2 == 0:
                    answers = [stack.gateway.get(f"/v1/{path}")[0] for path in ("files", "batches", "models")]
                    assert answers == [503, 503, 200]
                killed.start().wait_ready()
            if bucket is not None:
                await _while_away(bucket, stack, model)
            batch = await ended(client, batch)
            responses = [await answered(client, response) for response in responses]
            output = await lines_of(client, batch.output_file_id)
            errors = await lines_of(client, batch.error_file_id)
            usages = {it["response"]["request_id"]: it["response"]["body"]["usage"] for it in output}
            rows = await _rows(receiver, set(usages))
    assert batch.status == "completed"
    for kill, response in enumerate(responses):
        lost = response.error is not None and response.error.code == "worker_lost"
        assert lost or response.output_text == f"echo response {kill}"
    assert sorted(int(it["custom_id"]) for it in output + errors) == list(range(LINES))
    assert {it["error"]["code"] for it in errors} <= {"worker_lost"}
    assert (batch.request_counts.completed, batch.request_counts.failed) == (len(output), len(errors))
    assert len(usages) == len(output)
    assert batch.usage.output_tokens == sum(it["completion_tokens"] for it in usages.values()) == 3 * len(output)
    assert batch.usage.input_tokens == sum(it["prompt_tokens"] for it in usages.values())
    ledger = {row.trace_id: (row.prompt_tokens, row.output_tokens) for row in rows if row.trace_id in usages}
    assert ledger == {trace: (it["prompt_tokens"], it["completion_tokens"]) for trace, it in usages.items()}
    repeated = sum(count - 1 for text, count in model.asked.items() if text.startswith("text"))
    assert repeated <= KILLS * PLACES
    others = [row for row in rows if row.can_wait and row.status == "ok" and row.trace_id not in usages]
    assert len(others) <= repeated + len(errors), "an inference without a result was repeated, or its line given up"


async def _rows(receiver: Receiver, traces: set[str]) -> list[LedgerRow]:
    """The ledger's rows, once those of these traces are among them."""
    await eventually_async(lambda: traces <= {it.trace_id for it in receiver.spans if "weir.request" in it.attributes})
    return rows_in(receiver.bodies)


async def _while_away(bucket: S3, stack: Stack, model: EchoServer) -> None:
    """What cannot be kept is refused, and what runs goes on afterwards."""
    model.hold()
    await eventually_async(lambda: model.running > 0)
    bucket.stop()
    model.let_go()
    async with stack.client() as client:
        with pytest.raises(openai.InternalServerError, match="files do not answer") as refused:
            await client.responses.create(model=MODEL, input="while it is away", background=True)
    assert refused.value.status_code == 503
    bucket.start()


@pytest.mark.soak
async def test_a_lane_that_is_asked_to_end_gives_back_what_it_has_not_finished(start: Start, tmp_path: Path) -> None:
    """So that another runs it at once, with a lease that has long to go."""
    model = EchoServer().start()
    try:
        stack = start_stack(start, tmp_path, a_fleet(model.url), lane_concurrency="4", lane_lease_s="600")
        model.hold()
        async with stack.client(max_retries=20) as client:
            batch = await submit(client, [a_line(f"{it}", f"text {it}") for it in range(4)])
            await eventually_async(lambda: model.running == 4)
            stack.lane.terminate()
            await eventually_async(lambda: not stack.lane.alive)
            model.let_go()
            stack.lane.start().wait_ready()
            batch = await ended(client, batch)
    finally:
        model.stop()
    assert (batch.status, batch.request_counts.completed) == ("completed", 4)
    assert set(model.asked.values()) == {2}
