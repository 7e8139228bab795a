"""What a batch does to other requests, and how much it uses of what they leave.

A server of SLOTS requests at a time, with a token every 100 ms for each: how many are in its batch does not slow it. Requests of
people come at random, for a quarter of its slots on average; answers to them and to lines have from 5 to 35 tokens. The lane is stopped
and let go again (SIGSTOP, SIGCONT) around a batch without end, so that seconds with and without it lie beside each other, in the order
A B, B A, A B, …: both of a pair have the same requests, and what else the machine does is as much in the one as in the other.
WEIR_BENCH_LANE_PAIRS is how many pairs there are; the interval is of a bootstrap that draws pairs.
"""

import asyncio
import os
import random
import re
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
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
from tests.bench.processes import BenchError
from tests.support.lane.model_server import MODEL
from tests.support.lane.process import Stack, a_fleet, a_line, start_stack, submit
from tests.support.servers import slow_replica
from tests.support.start import starter

SLOTS, STEP_MS = int(os.environ.get("WEIR_BENCH_LANE_SLOTS", "64")), 100
MIN_TOKENS, MAX_TOKENS = 5, 35  # tokens of an answer
RESERVED_PERCENT = 4
"""Of the slots, for people: three of 64. A line that is sent while one is free is never in the way of the next person."""
OF_PEOPLE = 0.25  # of the slots
SETTLE_S = 30.0  # for the lane to find out how many fit
PAIRS, BLOCK_S = int(os.environ.get("WEIR_BENCH_LANE_PAIRS", "16")), 15.0
SWITCH_S = 5.0  # after each change of the lane: the longest answer takes 3.5 s
DRAWS = 2_000
MAX_LINES = 50_000
_RUNNING = re.compile(r"^vllm:num_requests_running\S* (\S+)", re.MULTILINE)
_LOOK_S = 0.1


class Block(NamedTuple):
    ttft_ns: list[int]
    running: float  # mean of the server


class Pair(NamedTuple):
    without: Block
    beside: Block


def run() -> Iterator[Figure]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-bench-")))
        starting = starter(folder)
        stack.callback(lambda: next(starting, None))
        start, port = next(starting), free_port()
        argv = (sys.executable, "-S", "-I", slow_replica.__file__, *map(str, (port, MODEL, MAX_TOKENS, STEP_MS, SLOTS)))
        start(Command("server", argv, partial(http_ok, port, "/health")))
        fleet = a_fleet(f"http://{LOOPBACK}:{port}/v1")
        pools = tuple(msgspec.structs.replace(pool, max_concurrency=SLOTS) for pool in fleet.pools)
        tiers = tuple(
            msgspec.structs.replace(tier, reserved_percent=RESERVED_PERCENT) if tier.name == "standard" else tier
            for tier in fleet.tiers
        )
        stack_ = start_stack(
            start, folder, msgspec.structs.replace(fleet, pools=pools, tiers=tiers), lane_lease_s="600"
        )
        yield from asyncio.run(_measure(stack_, port))


async def _measure(stack: Stack, port: int) -> list[Figure]:
    draw, pairs, runs = random.Random(8), list[Pair](), True
    lines = (a_line(f"{it}", f"line {it}", max_tokens=draw.randint(MIN_TOKENS, MAX_TOKENS)) for it in range(MAX_LINES))
    async with stack.client(max_retries=0) as client, aiohttp.ClientSession() as session:
        batch = await submit(client, lines)
        async with asyncio.TaskGroup() as asking:
            block = partial(_block, asking, client, session, port)
            await block(SETTLE_S, 0)
            for number in range(PAIRS):
                blocks = {}
                for wanted in (False, True) if number % 2 == 0 else (True, False):
                    if wanted != runs:
                        os.kill(stack.lane.pid, signal.SIGCONT if wanted else signal.SIGSTOP)
                        runs = wanted
                        await block(SWITCH_S, 0)
                    blocks[wanted] = await block(BLOCK_S, number + 1)
                pairs.append(Pair(blocks[False], blocks[True]))
        os.kill(stack.lane.pid, signal.SIGCONT)
        if (batch := await client.batches.retrieve(batch.id)).status != "in_progress":
            raise BenchError(f"the batch is {batch.status}: {MAX_LINES} lines are too few for {PAIRS} pairs")
    return _figures(pairs)


def _figures(pairs: Sequence[Pair]) -> list[Figure]:
    draw = random.Random(9)
    drawn = sorted(_harm(draw.choices(pairs, k=len(pairs))) for _ in range(DRAWS))
    low, high = drawn[DRAWS // 40], drawn[-DRAWS // 40]
    alone, both = (statistics.fmean(getattr(pair, name).running for pair in pairs) for name in Pair._fields)
    without, beside = (_p95_ms(pairs, name) for name in Pair._fields)
    count = sum(len(pair.beside.ttft_ns) for pair in pairs)
    say(
        f"lane: TTFT p95 {without:.1f} ms without, {beside:.1f} ms beside ({count} requests); interval {low:.3f} to {high:.3f}"
    )
    say(f"lane: running {alone:.1f} and {both:.1f} of {SLOTS}")
    of = f"p95 of the time to the first token, without a batch; {len(pairs)} pairs of {BLOCK_S:g} s"
    return [
        Figure("lane.harm_ratio", beside / without, "", of),
        Figure("lane.harm_ratio_low", low, "", "of its interval of 95 %"),
        Figure("lane.harm_ratio_high", high, "", "of its interval of 95 %"),
        Figure("lane.spare_used", (both - alone) / (SLOTS - alone), "", "slots that people leave free"),
    ]


def _harm(pairs: Sequence[Pair]) -> float:
    return _p95_ms(pairs, "beside") / _p95_ms(pairs, "without")


def _p95_ms(pairs: Sequence[Pair], name: str) -> float:
    return percentile([each for pair in pairs for each in getattr(pair, name).ttft_ns], 0.95) / 1e6


async def _block(
    asking: asyncio.TaskGroup, client: AsyncOpenAI, session: aiohttp.ClientSession, port: int, lasts_s: float, seed: int
) -> Block:
    """Requests of people for so long, those of the seed. The next block begins at once: answers may end in it."""
    draw, rate = random.Random(seed), OF_PEOPLE * SLOTS / ((MIN_TOKENS + MAX_TOKENS) / 2 * STEP_MS / 1000)
    ttft_ns: list[int] = []
    begun_s = time.monotonic()
    looking = asyncio.create_task(_running(session, port))
    due_s = begun_s
    while (due_s := due_s + draw.expovariate(rate)) < begun_s + lasts_s:
        await asyncio.sleep(due_s - time.monotonic())
        asking.create_task(_ask(client, draw.randint(MIN_TOKENS, MAX_TOKENS), ttft_ns))
    looking.cancel()
    return Block(ttft_ns, statistics.fmean(await looking))


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
