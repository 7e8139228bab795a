"""What a batch does to other requests, and how much it uses of what they leave.

A server of SLOTS requests at a time, with a token every 100 ms for each: how many are in its batch does not slow it. Requests of
people come at random, for a quarter of its slots on average; answers to them and to lines have from 5 to 35 tokens. The same load is
measured without a batch, then beside one without end, then without it again.
WEIR_BENCH_LANE_SPARE_S is how long each of the three lasts.
"""

import asyncio
import os
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import aiohttp
import msgspec
from openai import AsyncOpenAI

from deploy.local.ports import LOOPBACK, free_port
from deploy.local.process import Command, http_ok
from tests.bench.figures import Figure, percentile, say
from tests.support.lane.model_server import MODEL
from tests.support.lane.process import Stack, a_fleet, a_line, start_stack, submit
from tests.support.servers import slow_replica
from tests.support.start import starter

SLOTS, STEP_MS = int(os.environ.get("WEIR_BENCH_LANE_SLOTS", "64")), 100
FEWEST, MOST = 5, 35  # tokens of an answer
RESERVED_PERCENT = 4
"""Of the slots, for people: three of 64. A line that is sent while one is free is never in the way of the next person."""
OF_PEOPLE = 0.25  # of the slots
SETTLE_S = 30.0  # for the lane to find out how many fit
PHASE_S = float(os.environ.get("WEIR_BENCH_LANE_SPARE_S", "90"))
_RUNNING = re.compile(r"^vllm:num_requests_running\S* (\S+)", re.MULTILINE)
_LOOK_S = 0.1


class Phase(NamedTuple):
    ttft_ns: list[int]
    running: float  # mean of the server


def run() -> Iterator[Figure]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-bench-")))
        starting = starter(folder)
        stack.callback(lambda: next(starting, None))
        start, port = next(starting), free_port()
        argv = (sys.executable, "-S", "-I", slow_replica.__file__, *map(str, (port, MODEL, MOST, STEP_MS, SLOTS)))
        start(Command("server", argv, partial(http_ok, port, "/health")))
        fleet = a_fleet(f"http://{LOOPBACK}:{port}/v1")
        pools = tuple(msgspec.structs.replace(pool, max_concurrency=SLOTS) for pool in fleet.pools)
        tiers = tuple(
            msgspec.structs.replace(tier, reserved_percent=RESERVED_PERCENT) if tier.name == "standard" else tier
            for tier in fleet.tiers
        )
        stack_ = start_stack(start, folder, msgspec.structs.replace(fleet, pools=pools, tiers=tiers))
        yield from asyncio.run(_measure(stack_, port))


async def _measure(stack: Stack, port: int) -> list[Figure]:
    async with stack.client(max_retries=0) as client, aiohttp.ClientSession() as session:
        await _phase(client, session, port, 5.0)  # warm
        before = await _phase(client, session, port, PHASE_S / 2)
        draw = random.Random(8)
        lines = (a_line(f"{it}", f"line {it}", max_tokens=draw.randint(FEWEST, MOST)) for it in range(20_000))
        batch = await submit(client, lines)
        await _phase(client, session, port, SETTLE_S)
        beside = await _phase(client, session, port, PHASE_S)
        await client.batches.cancel(batch.id)
        await _phase(client, session, port, 10.0)
        after = await _phase(client, session, port, PHASE_S / 2)
    without = before.ttft_ns + after.ttft_ns
    alone = statistics.fmean((before.running, after.running))
    p95 = [percentile(values, 0.95) / 1e6 for values in (without, beside.ttft_ns)]
    said = f"TTFT p95 {p95[0]:.1f} ms without, {p95[1]:.1f} ms beside; running {alone:.1f} and {beside.running:.1f} of {SLOTS}"
    say(f"lane: {len(without)} and {len(beside.ttft_ns)} requests of people, {said}")
    return [
        Figure("lane.harm_ratio", p95[1] / p95[0], "", "p95 of the time to the first token, without a batch"),
        Figure("lane.spare_used", (beside.running - alone) / (SLOTS - alone), "", "slots that people leave free"),
    ]


async def _phase(client: AsyncOpenAI, session: aiohttp.ClientSession, port: int, lasts_s: float) -> Phase:
    draw, rate = random.Random(7), OF_PEOPLE * SLOTS / ((FEWEST + MOST) / 2 * STEP_MS / 1000)
    ttft_ns: list[int] = []
    begun_s = time.monotonic()
    looking = asyncio.create_task(_running(session, port))
    sent, due_s = list[asyncio.Task[None]](), begun_s
    while (due_s := due_s + draw.expovariate(rate)) < begun_s + lasts_s:
        await asyncio.sleep(due_s - time.monotonic())
        sent.append(asyncio.create_task(_ask(client, draw.randint(FEWEST, MOST), ttft_ns)))
    looking.cancel()
    seen = await looking
    await asyncio.gather(*sent)
    return Phase(ttft_ns, statistics.fmean(seen))


async def _ask(client: AsyncOpenAI, tokens: int, ttft_ns: list[int]) -> None:
    sent_ns = time.monotonic_ns()
    messages = [{"role": "user", "content": f"a question {random.random()}"}]
    stream = await client.chat.completions.create(model=MODEL, messages=messages, max_tokens=tokens, stream=True)  # type: ignore[call-overload]
    first = True
    async for chunk in stream:
        if first and chunk.choices and chunk.choices[0].delta.content:
            ttft_ns.append(time.monotonic_ns() - sent_ns)
            first = False


async def _running(session: aiohttp.ClientSession, port: int) -> list[float]:
    """How many requests the server works on, every 100 ms until this is cancelled."""
    seen = []
    try:
        while True:
            async with session.get(f"http://{LOOPBACK}:{port}/metrics") as page:
                seen.append(float(_RUNNING.findall(await page.text())[0]))
            await asyncio.sleep(_LOOK_S)
    except asyncio.CancelledError:
        return seen
