"""Who is next in a pool's queue, and whom a full queue refuses."""

import heapq
import random
from collections import Counter
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.core.fair_queue import Claim, FairQueue
from tests.support.soak import sized

PRIORITIES = (1, 2, 3)
MEAN_TOKENS, PLACES, PATIENCE_S = 100.0, 16, 10.0


def claim(priority: int, tenant: str = "acme", cost: float = 1.0, weight: float = 1.0) -> Claim:
    return Claim(f"tier {priority}", tenant, priority, weight, cost)


class Arrival(NamedTuple):
    at_s: float
    priority: int
    tokens: float


class Outcome(NamedTuple):
    served: Counter[int]
    served_tokens: Counter[int]
    worse_first: int  # requests of tier 3 that got a place while one of tier 1 waited
    longest_wait_s: dict[int, float]
    left: list[int]  # priorities of those that still wait at the end


def simulate(arrivals: list[Arrival], queue: FairQueue[int]) -> Outcome:
    """A pool that takes a second for the mean request. Requests leave the queue after `PATIENCE_S`."""
    served: Counter[int] = Counter()
    tokens: Counter[int] = Counter()
    waits = dict.fromkeys(PRIORITIES, 0.0)
    waiting: dict[int, Claim] = {}
    ends: list[float] = []
    worse_first = 0

    def hand_out(now_s: float) -> None:
        nonlocal worse_first
        for number in [number for number in waiting if now_s - arrivals[number].at_s > PATIENCE_S]:
            assert queue.remove(waiting.pop(number), number)
        while queue and len(ends) < PLACES:
            number = queue.pop()
            mine = waiting.pop(number)
            worse_first += mine.priority == 3 and any(other.priority == 1 for other in waiting.values())
            served[mine.priority] += 1
            tokens[mine.priority] += int(mine.cost)
            waits[mine.priority] = max(waits[mine.priority], now_s - arrivals[number].at_s)
            heapq.heappush(ends, now_s + mine.cost / MEAN_TOKENS)

    for number, arrival in enumerate(arrivals):
        while ends and ends[0] <= arrival.at_s:
            hand_out(heapq.heappop(ends))
        mine = claim(arrival.priority, cost=arrival.tokens)
        if not queue.has_room(mine):
            displaced = queue.displace(mine)
            if displaced is None:
                continue
            waiting.pop(displaced)
        queue.push(mine, number)
        waiting[number] = mine
        hand_out(arrival.at_s)
    return Outcome(served, tokens, worse_first, waits, [mine.priority for mine in waiting.values()])


def traffic(seed: int, loads: tuple[float, float, float], requests: int = 10_000) -> list[Arrival]:
    """`loads` are what the tiers want of the pool's capacity."""
    source, now_s, out = random.Random(seed), 0.0, []
    for _ in range(requests):
        now_s += source.expovariate(PLACES * sum(loads))
        priority = source.choices(PRIORITIES, loads)[0]
        out.append(Arrival(now_s, priority, 1 + source.expovariate(1 / MEAN_TOKENS)))
    return out


@pytest.mark.parametrize("seed", range(sized(1, soak=10)))
def test_at_twice_the_capacity_the_best_tier_never_waits_behind_the_worst_and_none_starves(seed: int) -> None:
    arrivals = traffic(seed, (2 / 3, 2 / 3, 2 / 3))
    outcome = simulate(arrivals, FairQueue(256, 256))
    wanted = Counter(arrival.priority for arrival in arrivals)
    assert outcome.worse_first == 0
    assert outcome.served[1] + outcome.left.count(1) == wanted[1], "all that it wants is within its share"
    assert outcome.longest_wait_s[1] < PATIENCE_S / 2
    left = outcome.served_tokens[2] + outcome.served_tokens[3]
    assert outcome.served_tokens[3] == pytest.approx(left / 9, rel=0.25), "8 to 1, of what tier 1 leaves"


def test_a_tier_that_wants_all_leaves_the_others_their_shares() -> None:
    outcome = simulate(traffic(1, (2.0, 0.5, 0.5)), FairQueue(256, 256))
    total = sum(outcome.served_tokens.values())
    for priority, share in ((1, 64 / 73), (2, 8 / 73), (3, 1 / 73)):
        assert outcome.served_tokens[priority] / total == pytest.approx(share, rel=0.15, abs=0.005)


def test_weights_change_the_shares_of_tiers_of_a_priority() -> None:
    queue: FairQueue[int] = FairQueue(1000, 0)
    for number in range(400):
        queue.push(Claim("three" if number % 2 else "one", weight=3.0 if number % 2 else 1.0), number)
    first = Counter(queue.pop() % 2 for _ in range(200))
    assert first[1] == pytest.approx(150, abs=2)


def test_costs_count_and_not_requests() -> None:
    queue: FairQueue[str] = FairQueue(1000, 0)
    for number in range(100):
        queue.push(Claim("long", cost=9.0), f"long {number}")
        queue.push(Claim("short", cost=1.0), f"short {number}")
    first = Counter(queue.pop().split()[0] for _ in range(100))
    assert first["long"] == pytest.approx(10, abs=1)


def test_what_a_request_used_beyond_what_was_expected_counts_too() -> None:
    queue: FairQueue[str] = FairQueue(1000, 0)
    greedy, modest = Claim("t", "greedy"), Claim("t", "modest")
    for number in range(20):
        queue.push(greedy, f"greedy {number}")
        queue.push(modest, f"modest {number}")
    assert queue.pop() == "greedy 0"
    queue.settle(greedy, 10.0, queue.charge)
    assert [queue.pop().split()[0] for _ in range(9)] == ["modest"] * 9


@pytest.mark.parametrize("others_wait", [False, True])
def test_what_was_charged_before_all_was_forgotten_is_not_given_back(others_wait: bool) -> None:
    queue: FairQueue[str] = FairQueue(1000, 1000)
    dear, cheap = Claim("t", "dear", cost=100.0), Claim("t", "cheap")
    queue.push(dear, "dear")
    if others_wait:
        queue.push(Claim("other", priority=3), "other")
    assert queue.pop() == "dear"
    charge = queue.charge  # nobody waits, or nobody of the tier: what tiers or tenants got is forgotten
    for number in range(20):
        queue.push(dear._replace(cost=1.0), f"dear {number}")
        queue.push(cheap, f"cheap {number}")
    queue.settle(dear, 0.0, charge)
    assert Counter(queue.pop().split()[0] for _ in range(20)) == {"dear": 10, "cheap": 10}


def test_a_tenant_with_many_requests_does_not_delay_the_others_of_its_tier() -> None:
    queue: FairQueue[str] = FairQueue(1000, 0)
    for number in range(100):
        queue.push(claim(2, "many"), f"many {number}")
    queue.push(claim(2, "few"), "few")
    assert "few" in [queue.pop() for _ in range(2)]


def test_a_full_queue_refuses_the_newest_of_whoever_has_most_in_it() -> None:
    queue: FairQueue[str] = FairQueue(4, 0)
    for number in range(4):
        queue.push(claim(2, "many"), f"many {number}")
    assert not queue.has_room(claim(2, "many"))
    assert queue.displace(claim(2, "many")) is None
    assert queue.displace(claim(3, "few")) is None, "a worse tier"
    assert queue.displace(claim(2, "few")) == "many 3"
    queue.push(claim(2, "few"), "few")
    assert queue.displace(claim(1)) == "many 2", "of a worse tier, whatever it has"


def test_a_full_queue_keeps_places_for_worse_tiers_and_none_for_better() -> None:
    queue: FairQueue[int] = FairQueue(73, 73)
    for number in range(73):
        assert queue.has_room(claim(3))
        queue.push(claim(3), number)
    assert queue.displace(claim(2)) == 72
    queue.push(claim(2), 72)
    for number in range(72, 72 + 63):
        assert queue.displace(claim(1)) is not None
        queue.push(claim(1), number)
    assert [queue._tiers[f"tier {priority}"].size for priority in PRIORITIES] == [63, 1, 9]
    for number in range(200, 208):
        assert queue.displace(claim(1)) is not None
        queue.push(claim(1), number)
    assert queue.displace(claim(1)) is None, "each of the others has no more than is kept for it"
    assert queue.remove(claim(3), 0)
    assert not queue.has_room(claim(1)), "and this one is free for tier 3"
    assert queue.has_room(claim(3))


claims = st.builds(claim, st.sampled_from(PRIORITIES), st.sampled_from("abc"), st.floats(0, 1000), st.floats(0.01, 100))


@given(st.lists(st.tuples(claims, st.integers(0, 3)), max_size=60), st.integers(0, 12), st.integers(0, 12))
def test_everyone_who_waits_comes_out_once(steps: list[tuple[Claim, int]], most: int, ahead: int) -> None:
    queue: FairQueue[int] = FairQueue(most, ahead)
    waiting: dict[int, Claim] = {}
    for number, (mine, step) in enumerate(steps):
        if step == 0 and waiting:
            assert waiting.pop(queue.pop())
        elif step == 1 and waiting:
            left = next(iter(waiting))
            assert queue.remove(waiting[left], left)
            assert not queue.remove(waiting.pop(left), left)
        else:
            displaced = None if queue.has_room(mine) else queue.displace(mine)
            if displaced is not None:
                assert waiting.pop(displaced)
            if queue.has_room(mine) or displaced is not None:
                queue.push(mine, number)
                waiting[number] = mine
        assert len(queue) == len(waiting) <= most
    while waiting:
        assert waiting.pop(queue.pop())
    assert len(queue) == 0


@given(st.lists(claims, min_size=1, max_size=40))
def test_in_a_tier_a_tenant_is_first_come_first_served(given_claims: list[Claim]) -> None:
    queue: FairQueue[int] = FairQueue(100, 5)
    for number, mine in enumerate(given_claims):
        queue.push(mine, number)
    order = [queue.pop() for _ in given_claims]
    for mine in set(given_claims):
        same = [n for n in order if given_claims[n][:2] == mine[:2]]
        assert same == sorted(same)


def test_only_whoever_may_be_served_now_is_next() -> None:
    queue: FairQueue[str] = FairQueue(9, 0)
    queue.push(claim(1), "first")
    queue.push(claim(2), "second")
    assert (queue.waiting_in("tier 1"), queue.waiting_in("tier 3")) == (1, 0)
    assert queue.pop_of(lambda priority: priority > 2) is None
    assert queue.pop_of(lambda priority: priority > 1) == "second"
    assert queue.pop() == "first"
    with pytest.raises(ValueError, match="nobody waits"):
        queue.pop()


def test_tenants_that_wait_no_more_are_forgotten_once_they_are_many_unless_they_got_more() -> None:
    queue: FairQueue[object] = FairQueue(1000, 0)
    for tenant in ("got", "waits"):
        queue.push(claim(2, tenant), tenant)
    assert queue.pop() == "got"
    kept = []
    for number in range(64):
        queue.push(claim(2, f"{number}"), number)
        assert queue.remove(claim(2, f"{number}"), number)
        kept.append(len(queue._tiers["tier 2"].flows))
    assert kept == [*range(3, 66), 2]
    queue.push(claim(2, "got"), "again")
    assert [queue.pop(), queue.pop()] == ["waits", "again"]
