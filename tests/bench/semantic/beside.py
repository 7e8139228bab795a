"""What a miss waits for once answers for similar requests are served: with its inference after the look-up, and beside it.

A gateway in this process, on a real Redis, before a model and an embedder that take their time. What is taken off is a request that is not
looked up.
"""

import asyncio
import time
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from inference.contract.snapshot import Price
from inference.core.semantic.beside import MIN_SEEN, HitShare
from inference.core.semantic.evidence import Label
from tests.bench.figures import Figure, percentile, say
from tests.bench.processes import start_redis
from tests.support.gateway.similar import Bed, bed, snapshot
from tests.support.wait import eventually_async

MODEL_S, EMBEDDER_S = 0.06, 0.02
ROUNDS = 100


class Takes(asyncio.Event):
    def __init__(self, time_s: float) -> None:
        super().__init__()
        self.time_s = time_s

    async def wait(self) -> bool:  # type: ignore[override]
        await asyncio.sleep(self.time_s)
        return True


async def measure(folder: Path, stack: ExitStack) -> list[Figure]:
    given = snapshot()
    pools = tuple(msgspec.structs.replace(pool, prices=(Price(0.0, 0.0),)) for pool in given.pools)
    given = msgspec.structs.replace(given, pools=pools)
    redis_url, serials = start_redis(stack, folder).url, count()
    with pytest.MonkeyPatch.context() as patch:
        async with bed(folder, patch, redis_url, given, answer=lambda _: "a weir") as it:
            it.chat.waits = 0.0
            await _certify(it)
            it.chat.held, it.embed.held = Takes(MODEL_S), Takes(EMBEDDER_S)
            took_us = dict[str, list[int]]()
            say(f"misses of a model that takes {MODEL_S} s, and an embedder that takes {EMBEDDER_S}")
            for _ in range(ROUNDS):
                for kind, word, known in (
                    ("no look-up", "today", 0),
                    ("after", "there", 0),
                    ("beside", "there", MIN_SEEN),
                ):
                    share = it.semantic.shares["m"] = HitShare()
                    for _ in range(known):
                        share.add(False)
                    messages: Any = [{"role": "user", "content": f"what does word{next(serials)} mean {word}"}]
                    began = time.perf_counter_ns()
                    await it.client.chat.completions.create(model="m", temperature=0, messages=messages)
                    took_us.setdefault(kind, []).append((time.perf_counter_ns() - began) // 1000)
                    await it.learnt()
            begun, missed = it.semantic.beside.total(), it.semantic.counts["m", "not_eligible_time"]
    assert begun == missed == ROUNDS, (begun, missed)
    p50_us = {kind: percentile(values, 0.5) for kind, values in took_us.items()}
    about = f"p50, the model {MODEL_S} s, the embedder {EMBEDDER_S} s"
    return [
        Figure(name, (p50_us[kind] - p50_us["no look-up"]) / 1000, "ms", about)
        for name, kind in (("semantic.miss_added_ms", "beside"), ("semantic.miss_added_after_ms", "after"))
    ]


async def _certify(it: Bed) -> None:
    await it.ask("what does a word mean there")
    (route,) = it.semantic.labels.routes.values()
    for number in range(route.evidence.labels_wanted):
        it.semantic.labels.add(route.name, Label(0.99, wrong=False), f"{number}")
    await it.learnt()
    load = it.pools()["m"].replicas[0].load
    await eventually_async(lambda: load.signals is not None and load.signals.waiting == 0.0)
