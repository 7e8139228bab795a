"""The scaling law: what asks for how many replicas, and how slowly they are given up."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.policy.core.decision import Proposed
from controlplane.policy.core.memory import LoadMemory, TargetMemory
from controlplane.policy.core.observation import BurnFacts, MetricFacts, PoolFacts, PoolPlan
from controlplane.policy.core.scaling import candidates
from controlplane.policy.core.spec import Reactive, ScaleDown, ScalingSpec, Schedule, StoredMetric

NOW_MS = 1_795_392_000_000
STEP_MS = 300_000


def spec(**changes: Any) -> ScalingSpec:
    return ScalingSpec(**({"max": 100, "pool": "chat"} | changes))


def facts(**changes: Any) -> PoolFacts:
    seen: dict[str, Any] = {
        "arrived_rps": 16.0,
        "waiting": 0.0,
        "wanted": 4,
        "ready": 4,
        "starting": 0,
        "capacity_rps": 5.0,
        "cold_start_s": 120.0,
        "traffic_age_ms": 0,
    }
    return PoolFacts("chat", **(seen | changes))


def plan(*warm: int, skill: float | None = 0.4, kept: tuple[int, ...] = ()) -> PoolPlan:
    return PoolPlan("chat", NOW_MS, NOW_MS, STEP_MS, 600_000, warm, warm, kept or warm, "profile_day", skill, 0.9)


def propose(
    policy: ScalingSpec | None = None,
    pool: PoolFacts | None = None,
    forecast: PoolPlan | None = None,
    memory: TargetMemory | None = None,
    now_ms: int = NOW_MS,
) -> Proposed:
    return candidates(policy or spec(), pool or facts(), forecast, memory or TargetMemory(), now_ms)


def counts(proposed: Proposed) -> dict[str, int]:
    return {each.source: each.count for each in proposed.candidates}


def test_the_load_is_carried_at_the_planned_share_of_what_a_replica_carries() -> None:
    proposed = propose()
    assert counts(proposed) == {"floor": 1, "reactive": 4}  # 16 / (5 × 0.8)
    assert proposed.candidates[1].reason == "16 requests/s, at 4 requests/s a replica"
    assert counts(propose(spec(reactive=Reactive(utilisation=0.5))))["reactive"] == 7


@pytest.mark.parametrize(("stands", "count"), [(8, 4), (4, 4), (3, 3), (2, 3)])
def test_what_a_replica_carries_at_least_removes_others_and_adds_none_that_it_does_not_show_to_be_needed(
    stands: int, count: int
) -> None:
    proposed = propose(pool=facts(capacity_is_lower_bound=True, wanted=stands, ready=stands))
    assert counts(proposed)["reactive"] == count  # 16 / (5 × 0.8) and 16 / (5 × 1.1)
    assert "at least 4 requests/s a replica" in proposed.candidates[1].reason


@pytest.mark.parametrize(
    ("strayed", "lasted", "rps", "count"),
    [
        (0.0, 0.0, 20.0, 25),  # no evidence: it is to last
        (50.0, 50.0, 20.0, 25),
        (50.0, 900.0, 20.0, 25),  # no more lasts than there is
        (99.0, -1.0, 10.0, 13),
        (99.0, -1.0, 12.0, 13),  # a burst, for which there is room
        (99.0, -1.0, 20.0, 20),  # one that is larger is carried, without room of its own
        (99.0, -1.0, 6.0, 13),  # a lull, after which the load is the usual one again
    ],
)
def test_the_room_for_growth_is_for_the_load_that_lasts(strayed: float, lasted: float, rps: float, count: int) -> None:
    memory = LoadMemory(
        at_ms=NOW_MS - 1_000, quick_rps=rps, steady_rps=rps, over_s=300.0, usual_rps=10.0, usual_over_s=3_600.0,
        strayed=strayed, lasted=lasted,
    )  # fmt: skip
    proposed = propose(pool=facts(arrived_rps=rps, capacity_rps=1.0), memory=TargetMemory(load=memory))
    assert counts(proposed)["reactive"] == count


def test_lines_of_the_lane_are_no_load_and_have_a_count_of_their_own_where_they_would_be_late() -> None:
    assert counts(propose(pool=facts(lines_rps=12.0))) == {"floor": 1, "reactive": 1}
    proposed = propose(pool=facts(lines_rps=12.0, lines_replicas=7, lines_reason="9 lines would be late"))
    assert (proposed.wanted, proposed.reason) == (7, "lines: 9 lines would be late")


def test_a_backlog_is_worked_off_within_a_cold_start() -> None:
    assert counts(propose(pool=facts(waiting=480.0)))["reactive"] == 5  # 16 + 480 / 120 = 20
    assert counts(propose(pool=facts(waiting=480.0, cold_start_s=None)))["reactive"] == 6  # within a minute


def test_a_small_pool_needs_more_for_the_same_load_per_replica() -> None:
    large = {"capacity_replicas": 20, "batching_factor": 12.0, "slots": 16}
    alone = counts(propose(pool=facts(**large)))["reactive"]
    assert alone > counts(propose())["reactive"]
    many = counts(propose(pool=facts(arrived_rps=100.0, **large)))["reactive"]
    assert many == counts(propose(pool=facts(arrived_rps=100.0)))["reactive"]


def test_what_is_not_known_asks_for_nothing() -> None:
    assert counts(propose(pool=facts(capacity_rps=None))) == {"floor": 1}
    assert counts(propose(pool=facts(arrived_rps=None))) == {"floor": 1}
    wanting = spec(reactive=Reactive(kv_use=0.8, cpu_use=0.5, queue_delay_s=1.0, waiting_per_replica=2))
    assert counts(propose(wanting, facts(arrived_rps=None, waiting=None))) == {"floor": 1}


@pytest.mark.parametrize(
    ("reactive", "seen", "count"),
    [
        (Reactive(in_flight_per_replica=8), {"in_flight": 65.0}, 9),
        (Reactive(waiting_per_replica=2), {"waiting": 21.0}, 11),
        (Reactive(kv_use=0.8), {"kv_use": 0.95}, 5),
        (Reactive(cpu_use=0.6), {"cpu_use": 0.9}, 6),
        (Reactive(gpu_use=0.6), {"metrics": {"gpu_use": MetricFacts(3.6, 0.9, 60_000)}}, 6),
        (Reactive(gpu_use=0.6), {"metrics": {"gpu_use": MetricFacts(3.6, 0.9, 121_000)}}, 1),
        (Reactive(metrics=(StoredMetric("jobs", 5.0),)), {"metrics": {"jobs": MetricFacts(41.0, 20.5, 0)}}, 9),
        (Reactive(metrics=(StoredMetric("jobs", 5.0),)), {"metrics": {"jobs": MetricFacts(-3.0, -3.0, 0)}}, 1),
        (Reactive(metrics=(StoredMetric("use", 0.5, "mean"),)), {"metrics": {"use": MetricFacts(2.8, 0.7, 0)}}, 6),
        (Reactive(metrics=(StoredMetric("jobs", 5.0), StoredMetric("use", 0.5, "mean"))), {"metrics": {}}, 1),
        (
            Reactive(metrics=(StoredMetric("jobs", 5.0, labels={"b": "2", "a": "1"}),)),
            {"metrics": {'jobs{a="1",b="2"}': MetricFacts(11.0, 11.0, 0), "jobs": MetricFacts(99.0, 99.0, 0)}},
            3,
        ),
        (Reactive(queue_delay_s=0.5), {"queue_delay_s": 0.6}, 5),
        (Reactive(queue_delay_s=0.5), {"queue_delay_s": 0.6, "starting": 2}, 6),
        (Reactive(queue_delay_s=0.5), {"queue_delay_s": 0.4}, 1),
        (Reactive(replica_rps=2.0), {"arrived_rps": 16.0}, 10),
    ],
)
def test_signals_that_a_policy_names_ask_for_replicas(reactive: Reactive, seen: dict[str, Any], count: int) -> None:
    pool = facts(**({"arrived_rps": None} | seen))
    assert propose(spec(reactive=reactive), msgspec.structs.replace(pool, wanted=1)).wanted == count


@pytest.mark.parametrize(
    ("burn", "count", "why"),
    [
        ({"stage": "queue"}, 5, "its bad requests lose their time in queue"),
        ({"stage": "model"}, 5, "burns 20 times as fast as it may, and 6 is accepted"),
        ({"stage": "network"}, 4, "lose their time in network, so none is added"),
        ({}, 4, "in which stage is not known, so none is added"),
        ({"burn_rate": 5.0, "stage": "queue"}, None, ""),
        ({"burn_rate": None}, None, ""),
        ({"unjudged": True, "stage": "model"}, 5, "burns 20 times as fast as it may, and 6 is accepted"),
        ({"age_ms": 61_000, "stage": "model"}, None, ""),
    ],
)
def test_an_objective_that_burns_adds_replicas_where_its_stage_says_that_they_help(
    burn: dict[str, Any], count: int | None, why: str
) -> None:
    wanting = spec(objective="first", reactive=Reactive(burn_rate=6.0))
    pool = facts(arrived_rps=1.0, burns={"first": BurnFacts(**{"burn_rate": 20.0, "age_ms": 0} | burn)})
    asked = [each for each in propose(wanting, pool).candidates if "burns" in each.reason]
    assert [each.count for each in asked] == ([] if count is None else [count])
    assert all(why in each.reason for each in asked)
    starting = msgspec.structs.replace(pool, starting=1)
    assert all(each.count <= 5 for each in propose(wanting, starting).candidates), "one step at a time"


@pytest.mark.parametrize(
    ("missed", "count"),
    [
        ({"stage": "model"}, 5),
        ({"stage": "network"}, 4),
        ({"stage": "model", "bad_share": 0.05}, None),
        ({"stage": "model", "bad_share_age_ms": 61_000}, None),
        ({"stage": "model", "bad_share": None}, None),
    ],
)
def test_an_objective_that_is_missed_too_often_adds_replicas_where_they_help(
    missed: dict[str, Any], count: int | None
) -> None:
    wanting = spec(objective="first", reactive=Reactive(bad_share=0.05))
    burn = BurnFacts(**{"bad_share": 0.2, "bad_share_age_ms": 0} | missed)
    asked = propose(wanting, facts(arrived_rps=1.0, burns={"first": burn})).candidates
    said = [each.count for each in asked if "first is missed by 20.0% of the requests of five minutes" in each.reason]
    assert said == ([] if count is None else [count])


def test_a_schedule_is_a_floor_that_says_its_name_and_floors_hold_without_traffic() -> None:
    at_night = spec(schedules=(Schedule("day", 6),))
    first = propose(at_night, facts(arrived_rps=0.0)).candidates[0]
    assert (first.count, first.reason) == (6, "1 at least, 0 warm, 6 by the schedule day")
    quiet = facts(arrived_rps=0.0, wanted=2)
    at_once = ScaleDown(stabilisation_s=0)
    assert propose(spec(min=2), quiet).wanted == 2
    assert propose(spec(min=0, warm_floor=3), quiet).wanted == 3
    assert propose(spec(min=0, scale_down=at_once), quiet, memory=TargetMemory()).wanted == 0


def test_the_forecast_asks_for_the_most_until_a_replica_created_now_is_warm() -> None:
    assert counts(propose(forecast=plan(4, 5, 9, 20, 20)))["forecast"] == 9
    assert counts(propose(forecast=plan(4, 5, 9, 20, 20), now_ms=NOW_MS + STEP_MS))["forecast"] == 20


@pytest.mark.parametrize(
    ("forecast", "policy"),
    [
        (plan(9, 9, 9, skill=0.0), spec()),
        (plan(9, 9, 9, skill=None), spec()),
        (plan(9, 9), spec()),  # it does not reach until a replica would be warm
        (plan(9, 9, 9), spec(forecast="off")),
    ],
)
def test_a_forecast_that_has_not_earned_its_use_counts_for_nothing(forecast: PoolPlan, policy: ScalingSpec) -> None:
    proposed = propose(policy, forecast=forecast)
    assert "forecast" not in counts(proposed)
    assert counts(proposed)["reactive"] == 4


def test_with_a_forecast_a_replica_is_filled_until_the_load_overtakes_it() -> None:
    assert counts(propose(forecast=plan(4, 4, 4)))["reactive"] == 4  # 16 / 5
    assert counts(propose(forecast=plan(3, 3, 3)))["reactive"] == 4  # 7 % more than three carry
    assert counts(propose(pool=facts(arrived_rps=21.0), forecast=plan(3, 3, 3)))["reactive"] == 6  # 21 / 4


def test_what_stands_at_the_first_tick_stays_for_the_stabilisation_window() -> None:
    policy, quiet = spec(min=1, scale_down=ScaleDown(stabilisation_s=300)), facts(arrived_rps=8.0, wanted=20)
    memory = TargetMemory()
    for second in (*range(0, 300, 60), 299, 301, *range(1_301, 1_600, 60), 1_600, 1_602):  # nobody looked in between
        count = 3 if second in (301, 1_602) else 20
        memory = msgspec.structs.replace(memory, load=None)
        proposed = propose(policy, quiet, memory=memory, now_ms=NOW_MS + second * 1_000)
        assert proposed.wanted == count, second
        memory = proposed.memory


def test_a_step_down_waits_until_the_highest_count_of_the_window_has_passed() -> None:
    policy = spec(scale_down=ScaleDown(stabilisation_s=300))
    memory = propose(policy, facts(arrived_rps=40.0, wanted=10)).memory
    for second in range(60, 600, 60):
        memory = msgspec.structs.replace(memory, load=None)
        proposed = propose(policy, facts(arrived_rps=8.0, wanted=10), memory=memory, now_ms=NOW_MS + second * 1_000)
        memory = proposed.memory
        assert proposed.wanted == (10 if second < 300 else 3), second
        if second < 300:
            assert proposed.reason == "10 replicas would have been needed within the last 5 min"


@pytest.mark.parametrize(
    "outage",
    [
        {"ready": 0, "failing": 4},
        {"ready": 0, "starting": 4},
        {"reachable": False},
        {"reachable": True, "cut_off": 1},
        {"traffic_age_ms": 30_001},
    ],
)
def test_requests_that_stay_away_while_no_replica_serves_are_no_lower_load(outage: dict[str, Any]) -> None:
    """Clients give up during an outage, and a gateway that is silent does not say what it gets. The replicas are needed afterwards."""
    policy, memory, wanted = spec(scale_down=ScaleDown(stabilisation_s=0)), TargetMemory(), list[int]()
    for tick in range(40):
        away: dict[str, Any] = {"arrived_rps": 0.3} | outage if 10 <= tick < 20 else {"arrived_rps": 3.0}
        now_ms = NOW_MS + tick * 10_000
        proposed = candidates(policy, facts(capacity_rps=1.0, **away), None, memory, now_ms)
        memory = proposed.memory
        wanted.append(proposed.wanted)
    assert wanted == [4] * 40


def test_what_stands_while_the_traffic_is_not_known_stays_for_the_stabilisation_window_afterwards() -> None:
    policy, memory, wanted = spec(scale_down=ScaleDown(stabilisation_s=60)), TargetMemory(), list[int]()
    for tick in range(60):
        seen = facts(arrived_rps=4.0, traffic_age_ms=30_001 if 20 <= tick < 40 else 500)
        proposed = candidates(policy, seen, None, memory, NOW_MS + tick * 10_000)
        memory = proposed.memory
        wanted.append(proposed.wanted)
    assert wanted == [4] * 6 + [2] * 14 + [4] * 25 + [2] * 15


def test_a_replica_is_kept_while_a_little_more_load_would_need_it() -> None:
    policy = spec(scale_down=ScaleDown(stabilisation_s=0))
    assert propose(policy, facts(arrived_rps=15.5, wanted=5)).wanted == 5  # 1.1 × 15.5 / 4 = 4.3
    assert propose(policy, facts(arrived_rps=14.5, wanted=5)).wanted == 4
    falling = plan(4, 4, 4, kept=(5, 5, 5))
    assert propose(policy, facts(arrived_rps=5.0, wanted=6), falling).wanted == 5


@given(
    st.lists(st.tuples(st.floats(0, 500), st.integers(0, 60), st.booleans()), min_size=1, max_size=60),
    st.sampled_from([0.0, 60.0, 300.0]),
)
def test_it_never_wants_less_than_its_highest_candidate_nor_gives_up_more_than_it_has(
    ticks: list[tuple[float, int, bool]], stabilisation_s: float
) -> None:
    policy = spec(min=1, scale_down=ScaleDown(stabilisation_s=stabilisation_s))
    memory, wanted = TargetMemory(), 1
    for tick, (rate, warm, known) in enumerate(ticks):
        pool = facts(arrived_rps=rate if known else None, wanted=wanted, ready=wanted)
        now_ms = NOW_MS + tick * 1_000
        proposed = propose(policy, pool, plan(warm, warm, warm, warm), memory, now_ms)
        highest = max(each.count for each in proposed.candidates)
        assert highest <= proposed.wanted <= max(highest, wanted)
        times = [at_ms for at_ms, _ in proposed.memory.recommended]
        kept = [count for _, count in proposed.memory.recommended]
        assert times == sorted(times)
        assert kept == sorted(kept, reverse=True)
        memory, wanted = proposed.memory, proposed.wanted
