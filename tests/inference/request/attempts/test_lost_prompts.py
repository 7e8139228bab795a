"""Prompts at which servers die."""

import asyncio

import msgspec
import pytest

from inference.core.backend_errors import LostCallError
from inference.core.events import Event
from inference.core.question import Message, Question
from inference.request.generate import generate
from tests.support.gateway.scripted import DONE, ScriptedBackend, a_flight, a_pool, some_work

GOOD = (Event("ab"), DONE)
LOST = LostCallError("connection lost")


@pytest.mark.parametrize("hedged", [False, True], ids=["plain", "hedged"])
@pytest.mark.parametrize("before", [(), (Event("a"),)], ids=["before a token", "midway"])
async def test_no_prompt_reaches_more_than_two_replicas_that_died_of_it(
    before: tuple[Event, ...], hedged: bool
) -> None:
    """Neither in one request, nor in those that repeat it, nor in a fallback's pool. Other prompts are served meanwhile."""
    waits = [lambda: asyncio.sleep(0.05)] if hedged and not before else []  # until the hedge is under way
    backends = [ScriptedBackend((*waits, *before, LOST), GOOD) for _ in range(3)]
    fallback = ScriptedBackend(GOOD)
    pool, last = a_pool(*backends, name="first"), a_pool(fallback, name="last")
    last.suspects = pool.suspects
    work = some_work(pool, last, model={"hedge_ms": 10} if hedged else {}, temperature=0.0)
    for lost in (2, 0):
        flight = a_flight()
        await generate(work, flight)
        assert flight.error is not None
        assert (flight.error.status, flight.error.code) == (502, "servers_lost")
        assert b"no further one gets it" in flight.error.body()
        assert dict(flight.error.headers())[b"x-should-retry"] == b"false", "the official client does not repeat it"
        assert len(set(flight.lost)) == lost
    assert (sum(len(backend.calls) for backend in backends), len(fallback.calls)) == (2, 0)
    other, query = a_flight(), work.question
    assert isinstance(query, Question)
    await generate(work._replace(question=msgspec.structs.replace(query, messages=(Message("user", "b"),))), other)
    assert other.answer().choices[0].text == "ab"
    assert all(replica.health.state == "up" for replica in pool.replicas)
    assert pool.retries.under_way == pool.in_flight == 0


async def test_a_prompt_that_one_replica_died_of_and_another_answered_is_no_suspect() -> None:
    pool = a_pool(ScriptedBackend(LOST, GOOD), ScriptedBackend(GOOD))
    pool.replicas[1].load.own += 50  # so that the other is preferred
    await generate(some_work(pool), a_flight())
    assert pool.retries.used
    assert not pool.suspects
