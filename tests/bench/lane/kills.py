"""A batch's lines: what they cost beside the same requests sent directly, and what becomes of them when lanes are killed.

WEIR_BENCH_LANE_KILLS and WEIR_BENCH_LANE_LINES are how many of each; the model answers after 20 ms while lanes are killed.
"""

import asyncio
import json
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import aiohttp
import psutil
from openai import AsyncOpenAI
from openai.types import Batch

from controlplane.lane.core.flow import FIRST_PLACES
from tests.bench.figures import Figure, say
from tests.bench.processes import BenchError
from tests.support.gateway.process import KEY
from tests.support.lane.model_server import EchoServer
from tests.support.lane.process import ENDED, Stack, a_fleet, a_line, lines_of, start_stack, submit
from tests.support.start import starter

KILLS = int(os.environ.get("WEIR_BENCH_LANE_KILLS", "30"))
LINES = int(os.environ.get("WEIR_BENCH_LANE_LINES", "3000"))
PLACES, COSTED, ROUNDS = 32, 3_000, 3
_PATIENCE_S = 3_600.0


def run() -> Iterator[Figure]:
    for measure in (_overhead, _takeover, _kills):
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-bench-")))
            model = EchoServer().start()
            stack.callback(model.stop)
            starting = starter(folder)
            started = start_stack(next(starting), folder, a_fleet(model.url), lane_concurrency=str(PLACES))
            stack.callback(lambda starting=starting: next(starting, None))  # type: ignore[misc]
            yield from asyncio.run(measure(started, model))


async def _overhead(stack: Stack, model: EchoServer) -> list[Figure]:
    """Rounds of both, one after the other, over the same gateway to a model that answers at once."""
    lane = psutil.Process(stack.lane.pid)
    extra, cpu = [], []
    async with stack.client() as client, aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        for number in range(ROUNDS):
            lines = [a_line(f"{it}", f"round {number} {it}") for it in range(COSTED)]
            direct_s = await _sent_directly(session, stack, lines)
            before = lane.cpu_times()
            batch = await submit(client, lines)
            begun, over = model.asked.total(), model.answered.total() + COSTED
            began_s = await _when(lambda begun=begun: model.asked.total() > begun)  # type: ignore[misc]
            over_s = await _when(lambda over=over: model.answered.total() >= over)  # type: ignore[misc]
            await _end(client, batch)
            after = lane.cpu_times()
            extra.append(1000 * (over_s - began_s - direct_s) / COSTED)
            cpu.append(1000 * (after.user + after.system - before.user - before.system) / COSTED)
            say(f"lane: {1000 * direct_s / COSTED:.2f} ms a request directly, {extra[-1]:.2f} ms more as a line")
    return [
        Figure("lane.overhead_ms_per_line", sorted(extra)[ROUNDS // 2], "ms", "the same request sent directly"),
        Figure("lane.cpu_ms_per_line", sorted(cpu)[ROUNDS // 2], "ms"),
    ]


async def _sent_directly(session: aiohttp.ClientSession, stack: Stack, lines: list[dict[str, object]]) -> float:
    """Seconds for all of them, PLACES at a time."""
    left = [json.dumps(line["body"]).encode() for line in reversed(lines)]
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}

    async def send() -> None:
        while left:
            async with session.post(
                f"{stack.gateway.base_url}/chat/completions", data=left.pop(), headers=headers
            ) as got:
                if got.status != 200:
                    raise BenchError(f"the gateway answered {got.status}: {await got.text()}")
                await got.read()

    began_s = time.monotonic()
    await asyncio.gather(*(send() for _ in range(PLACES)))
    return time.monotonic() - began_s


async def _takeover(stack: Stack, model: EchoServer) -> list[Figure]:
    """From the kill of a lane until another one sends its lines again. The lease is the default."""
    async with stack.client() as client:
        model.hold()
        await submit(client, [a_line(f"{it}", f"held {it}") for it in range(FIRST_PLACES)])
        await _when(lambda: model.running == FIRST_PLACES)
        stack.another()
        stack.lane.kill()
        killed_s = time.monotonic()
        again_s = await _when(lambda: model.asked.total() >= 2 * FIRST_PLACES)
        model.let_go()
    return [Figure("lane.takeover_s", again_s - killed_s, "s", "the lease of 30 s")]


async def _kills(stack: Stack, model: EchoServer) -> list[Figure]:
    """Two lanes, one of which is killed at a random moment, again and again."""
    draw, model.delay_s = random.Random(23), 0.02
    lanes = [stack.lane, stack.another()]
    async with stack.client(max_retries=50) as client:
        batch = await submit(client, [a_line(f"{it}", f"text {it}") for it in range(LINES)])
        done = model.answered
        for kill in range(KILLS):
            wanted = done.total() + draw.randint(1, max(1, LINES // KILLS))
            await _when(lambda wanted=wanted: done.total() >= min(wanted, LINES - PLACES))  # type: ignore[misc]
            lanes[kill % 2].kill()
            lanes[kill % 2].start()
            if kill % 2:
                for lane in lanes:
                    lane.wait_ready()
        say(f"lane: {KILLS} kills, {done.total()} of {LINES} lines answered; until the last lease is over")
        batch = await _end(client, batch)
        output, errors = await lines_of(client, batch.output_file_id), await lines_of(client, batch.error_file_id)
    results = Counter(it["custom_id"] for it in output + errors)
    counts = batch.request_counts
    if counts is None or batch.usage is None or (counts.completed, counts.failed) != (len(output), len(errors)):
        raise BenchError(f"counts {counts} are not those of the files: {len(output)} and {len(errors)}")
    if batch.usage.output_tokens != 3 * len(output):
        raise BenchError(f"{batch.usage.output_tokens} tokens are not those of {len(output)} answers")
    return [
        Figure("lane.lost", LINES - len(results), "lines", f"{LINES} lines, {KILLS} kills"),
        Figure(
            "lane.duplicated", sum(count - 1 for count in results.values()), "lines", f"{LINES} lines, {KILLS} kills"
        ),
        Figure("lane.given_up", len(errors), "lines", f"{LINES} lines, {KILLS} kills"),
        Figure(
            "lane.repeated", sum(count - 1 for count in model.asked.values()), "inferences", f"at most {KILLS * PLACES}"
        ),
    ]


async def _end(client: AsyncOpenAI, batch: Batch) -> Batch:
    until_s = time.monotonic() + _PATIENCE_S
    while (batch := await client.batches.retrieve(batch.id)).status not in ENDED:
        if time.monotonic() > until_s:
            raise BenchError(f"the batch is {batch.status} still: {batch.request_counts}")
        await asyncio.sleep(0.2)
    return batch


async def _when(holds: Callable[[], bool]) -> float:
    """The time at which it holds, to 20 ms."""
    until_s = time.monotonic() + _PATIENCE_S
    while not holds():
        if time.monotonic() > until_s:
            raise BenchError("what was waited for did not come")
        await asyncio.sleep(0.02)
    return time.monotonic()
