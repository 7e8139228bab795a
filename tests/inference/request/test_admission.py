"""The places of a pool, and the queue for them."""

import asyncio
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from inference.request.admit import Admission, QueueFullError

LONG_S = 60.0


async def test_the_best_priority_goes_first_and_then_the_oldest() -> None:
    admission = Admission(1, 10)
    await admission.acquire(2, LONG_S)
    order: list[str] = []

    async def wait(name: str, priority: int) -> None:
        await admission.acquire(priority, LONG_S)
        order.append(name)
        admission.release()

    tasks = []
    for name, priority in (("batch", 3), ("first", 2), ("second", 2), ("premium", 1)):
        tasks.append(asyncio.ensure_future(wait(name, priority)))
        await asyncio.sleep(0)
    admission.release()
    await asyncio.gather(*tasks)
    assert order == ["premium", "first", "second", "batch"]
    assert (admission.in_flight, admission.waiting) == (0, 0)


async def test_a_request_that_waits_too_long_is_refused_and_removed() -> None:
    admission = Admission(1, 1)
    await admission.acquire(2, LONG_S)
    with pytest.raises(TimeoutError):
        await admission.acquire(2, 0.001)
    assert admission.waiting == 0
    admission.release()
    assert admission.try_acquire()


async def test_a_place_that_came_with_the_cancellation_is_given_back() -> None:
    admission = Admission(1, 1)
    await admission.acquire(2, LONG_S)
    waiter = asyncio.ensure_future(admission.acquire(2, LONG_S))
    await asyncio.sleep(0)
    admission.release()
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    assert (admission.in_flight, admission.waiting) == (0, 0)


async def test_more_places_let_more_in_at_once() -> None:
    admission = Admission(0, 5)
    waiters = [asyncio.ensure_future(admission.acquire(2, LONG_S)) for _ in range(3)]
    await asyncio.sleep(0)
    admission.resize(2, 5)
    await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
    assert (admission.in_flight, admission.waiting) == (2, 1)
    admission.release()
    await asyncio.gather(*waiters)


async def test_in_a_full_queue_the_worst_that_came_last_makes_room_for_a_better() -> None:
    admission = Admission(1, 3)
    await admission.acquire(2, LONG_S)
    waiters = {
        name: asyncio.ensure_future(admission.acquire(priority, LONG_S))
        for name, priority in (("first", 3), ("second", 3), ("standard", 2))
    }
    await asyncio.sleep(0)
    with pytest.raises(QueueFullError):
        await admission.acquire(3, LONG_S)
    premium = asyncio.ensure_future(admission.acquire(1, LONG_S))
    with pytest.raises(QueueFullError):
        await waiters["second"]
    assert admission.waiting == 3
    for waiter in (premium, waiters["standard"], waiters["first"]):
        admission.release()
        await waiter
    assert (admission.in_flight, admission.waiting) == (1, 0)


class AdmissionMachine(RuleBasedStateMachine):
    """After any order of arrivals, cancellations, releases and new limits, the counts are right and no free place stays
    unused.
    """

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.admission = Admission(2, 3)
        self.tasks: list[asyncio.Task[None]] = []
        self.held = 0

    def turn(self) -> None:
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.run_until_complete(asyncio.sleep(0))
        for task in [task for task in self.tasks if task.done()]:
            self.tasks.remove(task)
            if not task.cancelled() and task.exception() is None:
                self.held += 1

    @rule(priority=st.integers(1, 3))
    def arrive(self, priority: int) -> None:
        full = self.admission.waiting >= self.admission.max_waiting

        async def acquire() -> None:
            await self.admission.acquire(priority, LONG_S)

        task = self.loop.create_task(acquire())
        self.tasks.append(task)
        self.turn()
        if task.done() and not task.cancelled() and task.exception() is not None:
            assert full
            assert isinstance(task.exception(), QueueFullError)

    @rule()
    def finish(self) -> None:
        if self.held:
            self.held -= 1
            self.admission.release()
            self.turn()

    @rule(data=st.data())
    def leave(self, data: Any) -> None:
        if self.tasks:
            data.draw(st.sampled_from(self.tasks)).cancel()
            self.turn()

    @rule(places=st.integers(0, 4), waiting=st.integers(0, 4))
    def resize(self, places: int, waiting: int) -> None:
        self.admission.resize(places, waiting)
        self.turn()

    @invariant()
    def counts_are_true(self) -> None:
        assert self.admission.in_flight == self.held
        assert self.admission.waiting == len(self.tasks)

    @invariant()
    def no_request_waits_while_there_is_a_place(self) -> None:
        assert not self.tasks or self.admission.in_flight >= self.admission.max_in_flight

    def teardown(self) -> None:
        for task in self.tasks:
            task.cancel()
        self.turn()
        self.loop.close()


TestAdmission = AdmissionMachine.TestCase
TestAdmission.settings = settings(max_examples=60, deadline=None)
