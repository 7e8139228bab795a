"""Identical questions in flight at the same time share one inference, and a client that leaves does not hurt the others."""

import asyncio
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contract.snapshot import CacheRule, Snapshot, StageTimeouts
from inference.core.events import Event
from inference.observability import spans
from inference.observability.spans import INFER, Mark, Trace
from tests.support.gateway.process import LARGE, SMALL, Gateway, Serve, unique, with_model
from tests.support.gateway.scripted import DONE, ScriptedBackend, a_snapshot, serve_pools
from tests.support.wait import eventually_async


async def test_who_joins_late_has_all_of_its_own_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = ScriptedBackend((asyncio.Event().wait,), (Event("ab"), DONE))
    timeouts = StageTimeouts(first_token_ms=1500)
    snapshot = msgspec.structs.replace(a_snapshot(), timeouts=timeouts)
    asked: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "temperature": 0}
    async with serve_pools(lambda *_, **__: script, snapshot, tmp_path, monkeypatch) as client:
        leader = asyncio.ensure_future(client.chat.completions.create(**asked))
        await eventually_async(lambda: len(script.streams) == 1)
        await asyncio.sleep(0.5)  # a third of the time that the leader has
        late = [asyncio.ensure_future(client.chat.completions.create(**asked)) for _ in range(2)]
        with pytest.raises(openai.InternalServerError) as ended:
            await leader
        assert (ended.value.status_code, ended.value.param) == (504, "model")
        assert [answer.choices[0].message.content for answer in await asyncio.gather(*late)] == ["ab", "ab"]
    assert len(script.calls) == 2, "they share the second inference"


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.integers(0, 8), st.integers(0, 8))
def test_the_stages_of_one_that_joined_twice_have_no_gaps(lasts: list[int], joined: int, left: int) -> None:
    shared = [Mark(INFER, 100 + sum(lasts[:number]), f"r{number}", "p", number + 1) for number in range(len(lasts))]
    trace = Trace(90, None, "chat")
    with patch.object(spans, "now_ns", lambda: 100 + joined):
        trace.join(shared)
    trace.leave(100 + joined + left)
    trace.stay()
    with patch.object(spans, "now_ns", lambda: 100 + joined + left):
        trace.join([Mark(INFER, 100, "r9", "p", 1)])
    trace.leave(150)
    trace.end_ns = 160
    edges = [(start, end) for _, start, end in trace.intervals()]
    assert (edges[0][0], edges[-1][1]) == (90, 160)
    assert all(before[1] == after[0] for before, after in pairwise(edges))


async def text(gateway: Gateway, messages: Any, stream: bool, model: str = SMALL) -> str:
    options: dict[str, Any] = {"model": model, "messages": messages, "max_tokens": 4, "temperature": 0}
    create = gateway.client().chat.completions.create
    if not stream:
        return str((await create(**options)).choices[0].message.content)
    return "".join([chunk.choices[0].delta.content or "" async for chunk in await create(**options, stream=True)])


async def ended(gateway: Gateway) -> Counter[str]:
    """How many requests have ended, by status and cache outcome."""
    _, page = await asyncio.to_thread(gateway.get, "/metrics")
    found = re.findall(r'weir_gateway_requests_total\{cache="(\w+)".*status="(\w+)".*\} ([\d.]+)', page)
    out: Counter[str] = Counter()
    for outcome, status, number in found:
        out[f"{status} {outcome}"] += int(float(number))
    return out


async def in_flight(gateway: Gateway, number: int) -> None:
    await eventually_async(
        lambda: asyncio.to_thread(lambda: gateway.metric("weir_gateway_requests_in_flight") == number)
    )


async def test_twenty_at_once_cost_one_inference(slow_gateway: Gateway) -> None:
    messages, before = unique(), await ended(slow_gateway)
    answers = await asyncio.gather(*(text(slow_gateway, messages, number % 2 == 0) for number in range(20)))
    assert len(set(answers)) == 1
    assert await ended(slow_gateway) - before == {"ok skipped": 1, "ok coalesced": 19}


async def test_a_leader_that_leaves_does_not_fail_its_followers(slow_gateway: Gateway) -> None:
    messages, before = unique(), await ended(slow_gateway)
    leader = asyncio.ensure_future(text(slow_gateway, messages, True))
    await in_flight(slow_gateway, 1)
    follower = asyncio.ensure_future(text(slow_gateway, messages, True))
    await in_flight(slow_gateway, 2)
    leader.cancel()
    assert await follower
    assert await ended(slow_gateway) - before == {"cancelled skipped": 1, "ok coalesced": 1}


async def test_the_inference_ends_with_the_last_to_leave(slow_gateway: Gateway) -> None:
    messages, before = unique(), await ended(slow_gateway)
    tasks = [asyncio.ensure_future(text(slow_gateway, messages, number % 2 == 0)) for number in range(3)]
    await in_flight(slow_gateway, 3)
    assert slow_gateway.metric("weir_gateway_replica_in_flight") == 1
    for task in tasks:
        task.cancel()
    await eventually_async(lambda: asyncio.to_thread(slow_gateway.idle))
    assert await ended(slow_gateway) - before == {"cancelled skipped": 1, "cancelled coalesced": 2}


async def test_sampled_questions_fly_alone(slow_gateway: Gateway) -> None:
    messages, before = unique(), await ended(slow_gateway)
    create = slow_gateway.client().chat.completions.create
    await asyncio.gather(*(create(model=SMALL, messages=messages, max_tokens=2, temperature=1) for _ in range(4)))
    assert await ended(slow_gateway) - before == {"ok bypass": 4}


async def test_the_rule_can_forbid_it(serve: Serve, snapshot: Snapshot) -> None:
    gateway = await asyncio.to_thread(serve, with_model(snapshot, LARGE, cache=CacheRule(coalesce=False)))
    messages, before = unique(), await ended(gateway)
    await asyncio.gather(*(text(gateway, messages, False, LARGE) for _ in range(4)))
    assert await ended(gateway) - before == {"ok skipped": 4}
