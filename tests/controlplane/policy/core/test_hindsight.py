"""Perfect foresight over what was recorded."""

from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from controlplane.policy.core.decide import decide
from controlplane.policy.core.hindsight import foreseen, hindsight, needed
from controlplane.policy.core.memory import Memory
from controlplane.policy.core.pool_use import used
from controlplane.policy.core.record import Record, record_of
from tests.support.policy.cases import NOW_MS, POOL, pool, scaling, seen

MINUTE_MS = 60_000


def records(
    rates: Sequence[float | None], cold_start_s: float = 180.0, minimum: int = 1, **more: Any
) -> Iterator[Record]:
    """One a minute, of a pool whose replicas carry 10 requests/s. Each begins without a memory: the load is that of its minute."""
    policies = [scaling(min=minimum, scale_down={"stabilisation_s": 0})]
    for number, rate in enumerate(rates):
        facts = pool(arrived_rps=rate, cold_start_s=cold_start_s, **more)
        observation = seen(facts, now_ms=NOW_MS + number * MINUTE_MS)
        decision = decide(observation, policies, Memory())
        yield record_of(observation, policies, Memory(), decision)


def test_it_fills_replicas_and_has_them_ready_in_time() -> None:
    rising = list(records([20, 20, 20, 20, 75, 20, 20]))
    assert [needed(each, POOL) for each in rising] == [2, 2, 2, 2, 8, 2, 2]
    assert foreseen(rising, POOL) == [2, 8, 8, 8, 8, 2, 2], "ordered a cold start ahead, and given up at once"


def test_a_floor_holds_for_it_and_what_is_unknown_is_nothing() -> None:
    assert foreseen(list(records([5, None, 45], minimum=3)), POOL) == [5, None, 5]
    assert foreseen(list(records([5], minimum=3)), POOL) == [3]


def test_a_load_that_was_remembered_while_traffic_was_missing_is_none_that_came() -> None:
    """A decision in an outage of metrics was said to have had as many replicas as were needed."""
    memory, made, policies = Memory(), [], [scaling(min=1)]
    for minute in range(8):
        is_old = 2 <= minute < 6
        facts = pool(arrived_rps=20.0, traffic_age_ms=MINUTE_MS if is_old else 0, cold_start_s=180.0)
        observation = seen(facts, now_ms=NOW_MS + minute * MINUTE_MS)
        decision = decide(observation, policies, memory)
        made.append(record_of(observation, policies, memory, decision))
        memory = decision.memory
    assert foreseen(made, POOL) == [2, 2, None, None, None, None, 2, 2]
    assert hindsight(made[1], made[2:], NOW_MS + 60 * MINUTE_MS) == [], "what came is not known"


@given(st.lists(st.integers(1, 300), min_size=1, max_size=30), st.sampled_from([60.0, 180.0, 900.0]))
def test_it_is_the_most_of_all_that_comes_within_a_cold_start(rates: list[int], cold_start_s: float) -> None:
    counted = list(records(rates, cold_start_s))
    ahead = max(2, round(cold_start_s / 60))
    counts = [-(-rate // 10) for rate in rates]
    assert foreseen(counted, POOL) == [max(counts[first : first + ahead + 1]) for first in range(len(counts))]


def test_a_regret_is_known_when_its_time_is_over() -> None:
    first, *later = records([20, 20, 75, 20, 20])
    assert first.decision.targets[POOL].wanted == 3
    assert hindsight(first, later, NOW_MS + 100_000) == []
    (judged,) = hindsight(first, later, NOW_MS + 181_000)
    assert (judged.wanted, judged.needed, judged.regret) == (3, 8, -5)


def test_of_a_lower_bound_of_what_a_replica_carries_perfect_foresight_needs_so_many_at_most() -> None:
    """Replicas that carried more than was known were said to have been too few."""
    made = list(records([20, 20, 75, 20, 20], capacity_is_lower_bound=True))
    (judged,) = hindsight(made[0], made[1:], NOW_MS + 181_000)
    assert (judged.needed, judged.at_most) == (8, True)
    (use,) = used(made, NOW_MS + 5 * MINUTE_MS)
    assert use.foreseen_at_most
    made = list(records([5, 5, 5, 5], minimum=3, capacity_is_lower_bound=True))
    (judged,) = hindsight(made[0], made[1:], NOW_MS + 181_000)
    assert (judged.needed, judged.at_most) == (3, False), "the floor is needed in any case"


def test_perfect_foresight_is_beside_what_was_used_in_the_same_time() -> None:
    (use,) = used(list(records([20] * 30 + [None] * 30)), NOW_MS + 60 * MINUTE_MS)
    assert use.replica_hours == approx(4)
    assert (use.foreseen_replica_hours, use.compared_replica_hours) == approx((1, 2)), (
        "half of the time nothing was known of the load"
    )
