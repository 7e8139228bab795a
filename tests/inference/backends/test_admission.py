"""The places of a pool, and the queue for them."""

import asyncio
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from inference.backends.admission import Admission, QueueFullError
from inference.contract.snapshot_parts import Tier
from inference.core.fair_queue import Claim

LONG_S = 60.0
STANDARD = Claim("standard")


def claim(priority: int) -> Claim:
    return Claim(f"tier {priority}", priority=priority)


async def test_the_best_priority_goes_first_and_then_the_oldest() -> None:
    admission = Admission(1, 10)
    await admission.acquire(STANDARD, LONG_S)
    order: list[str] = []

    async def wait(name: str, priority: int) -> None:
        await admission.acquire(claim(priority), LONG_S)
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
    await admission.acquire(STANDARD, LONG_S)
    with pytest.raises(TimeoutError):
        await admission.acquire(STANDARD, 0.001)
    assert admission.waiting == 0
    admission.release()
    assert admission.try_acquire(2)


async def test_a_place_that_came_with_the_cancellation_is_given_back() -> None:
    admission = Admission(1, 1)
    await admission.acquire(STANDARD, LONG_S)
    waiter = asyncio.ensure_future(admission.acquire(STANDARD, LONG_S))
    await asyncio.sleep(0)
    admission.release()
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    assert (admission.in_flight, admission.waiting) == (0, 0)


async def test_more_places_let_more_in_at_once() -> None:
    admission = Admission(0, 5)
    waiters = [asyncio.ensure_future(admission.acquire(STANDARD, LONG_S)) for _ in range(3)]
    await asyncio.sleep(0)
    admission.resize(2, 5)
    await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
    assert (admission.in_flight, admission.waiting) == (2, 1)
    admission.release()
    await asyncio.gather(*waiters)


async def test_in_a_full_queue_the_worst_that_came_last_makes_room_for_a_better() -> None:
    admission = Admission(1, 3)
    await admission.acquire(STANDARD, LONG_S)
    waiters = {
        name: asyncio.ensure_future(admission.acquire(claim(priority), LONG_S))
        for name, priority in (("first", 3), ("second", 3), ("standard", 2))
    }
    await asyncio.sleep(0)
    with pytest.raises(QueueFullError):
        await admission.acquire(claim(3), LONG_S)
    premium = asyncio.ensure_future(admission.acquire(claim(1), LONG_S))
    with pytest.raises(QueueFullError):
        await waiters["second"]
    assert admission.waiting == 3
    for waiter in (premium, waiters["standard"], waiters["first"]):
        admission.release()
        await waiter
    assert (admission.in_flight, admission.waiting) == (1, 0)


def reserving(places: int, waiting: int, **percent: int) -> Admission:
    """`percent` by tier; premium, standard and batch have the priorities 1, 2 and 3."""
    admission = Admission(places, waiting)
    admission.reserve(
        Tier(name, PRIORITY[name], reserved_percent=percent.get(name, 0)) for name in ("batch", "premium", "standard")
    )
    return admission


PRIORITY = {"premium": 1, "standard": 2, "batch": 3}


def of(tier: str) -> Claim:
    return Claim(tier, priority=PRIORITY[tier])


@pytest.mark.parametrize(
    ("places", "percent", "most"),
    [
        (6, {"premium": 15}, {"premium": 6, "standard": 5, "batch": 5}),
        (6, {"premium": 17}, {"premium": 6, "standard": 4, "batch": 4}),
        (10, {"premium": 20, "standard": 10}, {"premium": 10, "standard": 8, "batch": 7}),
        (2, {"premium": 100, "standard": 50}, {"premium": 2, "standard": 1, "batch": 1}),
        (1, {"premium": 50}, {"premium": 1, "standard": 1, "batch": 1}),
        (4, {}, {"premium": 4, "standard": 4, "batch": 4}),
    ],
)
def test_worse_tiers_leave_places_free(places: int, percent: dict[str, int], most: dict[str, int]) -> None:
    for tier, number in most.items():
        admission = reserving(places, 5, **percent)
        while admission.try_acquire(PRIORITY[tier]):
            pass
        assert admission.in_flight == number


async def test_what_is_reserved_is_there_at_once_though_others_wait_and_their_queue_is_full() -> None:
    admission = reserving(4, 2, premium=25)
    for _ in range(3):
        await admission.acquire(of("batch"), LONG_S)
    waiters = [asyncio.ensure_future(admission.acquire(of("batch"), LONG_S)) for _ in range(2)]
    await asyncio.sleep(0)
    await admission.acquire(of("premium"), LONG_S)
    assert (admission.in_flight, admission.waiting) == (4, 2), "nobody was displaced"
    admission.release()
    await asyncio.sleep(0)
    assert admission.waiting == 2, "the next place is premium's again"
    admission.release()
    await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
    assert (admission.in_flight, admission.waiting) == (3, 1)
    admission.release()
    await asyncio.gather(*waiters)


async def test_a_worse_tier_is_told_what_others_leave_it_and_how_many_wait() -> None:
    admission = reserving(4, 2, premium=25)
    assert (admission.room(PRIORITY["premium"]), admission.room(PRIORITY["batch"])) == (4, 3)
    for _ in range(3):
        await admission.acquire(of("premium"), LONG_S)
    assert (admission.room(PRIORITY["premium"]), admission.room(PRIORITY["batch"])) == (1, 0)
    await admission.acquire(of("premium"), LONG_S)
    assert admission.room(PRIORITY["batch"]) == 0, "not less than none, though the reserve is in use too"
    waiters = [asyncio.ensure_future(admission.acquire(of("batch"), LONG_S)) for _ in range(2)]
    await asyncio.sleep(0)
    assert admission.room(PRIORITY["premium"]) == admission.room(PRIORITY["batch"]) == -2
    for _ in range(2):
        admission.release()
        admission.release()
    await asyncio.gather(*waiters)


async def test_a_place_that_the_next_tier_leaves_to_another_is_not_left_empty() -> None:
    """Batch is next, because premium is over its share, and has to leave the place to standard, which does not want it."""
    admission = reserving(2, 5, standard=1)
    await admission.acquire(of("premium"), LONG_S)
    tiers = ("batch", "premium", "premium")
    waiters = [asyncio.ensure_future(admission.acquire(of(tier), LONG_S)) for tier in tiers]
    await asyncio.sleep(0)
    admission.resize(3, 0)
    await asyncio.wait(waiters[1:])
    assert (admission.in_flight, admission.waiting) == (3, 1)
    waiters[0].cancel()


async def test_a_tier_that_uses_more_than_its_share_starves_nobody_with_its_reserve() -> None:
    """Premium always has three of four places, so batch gets one only because premium is over its share."""
    admission = reserving(4, 5, premium=25)
    for _ in range(3):
        await admission.acquire(of("premium"), LONG_S)
    batch = [asyncio.ensure_future(admission.acquire(of("batch"), LONG_S)) for _ in range(3)]
    await asyncio.sleep(0)
    sent = 0
    while not all(each.done() for each in batch):
        premium = asyncio.ensure_future(admission.acquire(of("premium"), LONG_S))
        for _ in range(4):
            await asyncio.sleep(0)
            if admission.in_flight == 4:  # three of premium, and this one or one of batch
                admission.release()
        await premium
        sent += 1
        assert sent < 100
    assert sent > 3 * 5, "as many in a row as the queue has places"


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
            await self.admission.acquire(claim(priority), LONG_S)

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

    @rule(first=st.integers(0, 60), second=st.integers(0, 60))
    def reserve(self, first: int, second: int) -> None:
        self.admission.reserve([Tier("tier 1", 1, reserved_percent=first), Tier("tier 2", 2, reserved_percent=second)])
        self.turn()

    @invariant()
    def counts_are_true(self) -> None:
        assert self.admission.in_flight == self.held
        assert self.admission.waiting == len(self.tasks)

    @invariant()
    def no_request_waits_while_there_is_a_place(self) -> None:
        left = self.admission.max_in_flight - self.admission.in_flight
        assert not self.tasks or left <= 0 or left < self.admission.max_in_flight, "one is not kept for anybody"
        assert not self.admission._queue.waiting_in("tier 1") or left <= 0, "the best tier leaves no place free"

    def teardown(self) -> None:
        for task in self.tasks:
            task.cancel()
        self.turn()
        self.loop.close()


TestAdmission = AdmissionMachine.TestCase
TestAdmission.settings = settings(max_examples=60, deadline=None)
