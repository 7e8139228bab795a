"""Each rail by itself: what it does to a count, and that it says why."""

from typing import Any

import pytest

from controlplane.policy.core.memory import TargetMemory
from controlplane.policy.core.observation import BurnFacts, ClusterFacts, MetricFacts, Override, Pause
from controlplane.policy.core.rails import rails
from controlplane.policy.core.rails.rails import RAILS
from tests.support.policy.cases import NOW_MS, case, judged, pool

OVERRIDE = Override(NOW_MS + 60_000, "chat-eu", 7)


@pytest.mark.parametrize("facts", [{"cluster_age_ms": None}, {"cluster_age_ms": 61_000}, {"wanted": None}])
def test_counts_that_are_missing_or_old_end_the_decision(facts: dict[str, Any]) -> None:
    verdict = rails.cluster(case(pool(**facts)), 9)
    assert verdict is not None
    assert (verdict.hold, verdict.alarm and verdict.alarm.severity) == ("all", "page")


def test_a_cluster_that_is_away_holds_its_own() -> None:
    away = ClusterFacts("eu", 500, "connection refused")
    verdict = rails.cluster(case(cluster=away), 9)
    assert judged(verdict) == (4, "cluster")
    assert verdict and verdict.alarm and verdict.alarm.key == "cluster:eu"
    assert verdict.reason == "eu cannot be read: connection refused. The count stays as it is."
    assert judged(rails.cluster(case(pool(problem="no Deployment chat-eu")), 9)) == (4, "unmanaged")


@pytest.mark.parametrize("facts", [{"traffic_age_ms": None}, {"traffic_age_ms": 30_001}, {"arrived_rps": None}])
@pytest.mark.parametrize("count", [1, 9])
def test_traffic_that_is_missing_or_old_holds(facts: dict[str, Any], count: int) -> None:
    assert judged(rails.metrics(case(pool(**facts)), count)) == (4, "metrics")


def test_the_page_names_the_gateway_that_is_silent_and_a_first_reading_pages_nobody() -> None:
    verdict = rails.metrics(case(pool(traffic_age_ms=None, traffic_problem="http://b/signals answers 401")), 1)
    assert verdict and verdict.alarm
    assert "was never seen: http://b/signals answers 401. The count stays" in verdict.alarm.text
    verdict = rails.metrics(case(pool(arrived_rps=None)), 1)
    assert verdict is not None
    assert "a rate takes two readings" in verdict.reason
    assert verdict.alarm and verdict.alarm.severity == "ticket"


def test_a_signal_of_servers_that_is_old_holds_a_step_down_alone() -> None:
    spec = {"reactive": {"kv_use": 0.8}}
    old = pool(kv_use=0.2, servers_age_ms=31_000)
    assert judged(rails.metrics(case(old, spec=spec), 3)) == (4, "metrics")
    assert rails.metrics(case(old, spec=spec), 5) is None
    assert rails.metrics(case(pool(kv_use=0.2), spec=spec), 3) is None


def test_a_persons_count_needs_no_traffic() -> None:
    assert rails.metrics(case(pool(traffic_age_ms=None), override=OVERRIDE), 7) is None


def test_an_owners_condition_holds_and_so_does_an_unknown_one() -> None:
    spec = {"hold_when": "kv_use > 0.9"}
    assert rails.hold_when(case(pool(kv_use=0.5), spec=spec), 6) is None
    assert judged(rails.hold_when(case(pool(kv_use=0.95), spec=spec), 6)) == (4, "")
    assert judged(rails.hold_when(case(pool(), spec=spec), 6)) == (4, "condition")


def test_a_step_is_limited_both_ways() -> None:
    spec = {"scale_up": {"max_step": 2}, "scale_down": {"max_step": 1}}
    assert judged(rails.step_up(case(spec=spec), 9)) == (6, "")
    assert rails.step_up(case(spec=spec), 6) is None
    assert rails.step_up(case(), 9) is None
    assert judged(rails.step_down(case(spec=spec), 0)) == (3, "")
    assert rails.step_down(case(spec=spec), 3) is None


def test_no_step_down_follows_another_step_at_once() -> None:
    recent = case(memory=TargetMemory(steps=((NOW_MS - 59_999, 2),)))
    assert judged(rails.cooldown(recent, 3)) == (4, "")
    assert rails.cooldown(recent, 5) is None
    assert rails.cooldown(case(memory=TargetMemory(steps=((NOW_MS - 60_000, 2),))), 3) is None


def test_the_rate_counts_the_steps_of_its_period() -> None:
    spec = {"rate": {"period_s": 100, "max_up": 3, "max_down": 2}}
    memory = TargetMemory(steps=((NOW_MS - 100_000, 9), (NOW_MS - 90_000, 2), (NOW_MS - 80_000, -1)))
    assert judged(rails.rate(case(spec=spec, memory=memory), 9)) == (5, "")
    assert judged(rails.rate(case(spec=spec, memory=memory), 1)) == (3, "")
    assert rails.rate(case(spec=spec, memory=memory), 5) is None


def test_a_count_stays_between_min_and_max() -> None:
    assert judged(rails.maximum(case(), 11)) == (10, "")
    assert judged(rails.minimum(case(spec={"min": 2}), 1)) == (2, "")
    assert rails.maximum(case(), 10) is None
    assert rails.minimum(case(), 1) is None


@pytest.mark.parametrize(
    ("facts", "left", "said"),
    [
        ({"in_flight": 17.0}, 3, ""),
        ({"in_flight": 17.0, "slots": None}, 1, ""),
        ({"in_flight": None}, 4, "metrics"),
        ({"in_flight": 17.0, "lines_in_flight": 16.0}, 1, ""),  # lines that can wait keep none
    ],
)
def test_replicas_stay_for_what_is_in_flight(facts: dict[str, Any], left: int, said: str) -> None:
    assert judged(rails.in_flight(case(pool(**facts)), 0)) == (left, said)


def test_more_in_flight_than_places_asks_for_no_replica() -> None:
    assert judged(rails.in_flight(case(pool(in_flight=500.0)), 2)) == (4, "")
    assert rails.in_flight(case(pool(in_flight=500.0)), 5) is None
    assert rails.in_flight(case(pool(in_flight=0.0)), 0) is None


def test_replicas_that_get_no_node_in_time_cap_growth_and_are_not_taken_back() -> None:
    waiting = pool(wanted=6, pending=2, pending_since_ms=NOW_MS - 900_000, pending_reason="0/3 nodes are available")
    verdict = rails.pending(case(waiting), 8)
    assert judged(verdict) == (6, "pending")
    assert verdict
    assert "2 replicas of chat-eu got no node within 15 min: 0/3 nodes are available." in verdict.reason
    assert rails.pending(case(waiting), 5) is None, "the load may need fewer"
    early = pool(wanted=6, pending=2, pending_since_ms=NOW_MS - 899_999)
    assert rails.pending(case(early), 8) is None
    assert rails.pending(case(waiting, override=OVERRIDE), 8) is None, "what a person says is asked for"


def test_replicas_that_crash_are_said() -> None:
    facts = pool(ready=1, failing=3, failing_reason="container main waits with CrashLoopBackOff")
    for count in (2, 6):
        verdict = rails.failing(case(facts), count)
        assert judged(verdict) == (count, "failing")
        assert verdict and verdict.alarm and verdict.alarm.severity == "page"
        assert "cannot run: container main waits with CrashLoopBackOff." in verdict.alarm.text


@pytest.mark.parametrize("burn", [None, BurnFacts(None, 0), BurnFacts(0.0, 61_000), BurnFacts(0.0, 0, unjudged=True)])
def test_a_burn_rate_that_is_missing_or_old_holds_a_step_down_alone(burn: BurnFacts | None) -> None:
    spec = {"objective": "first", "reactive": {"burn_rate": 6.0}}
    blind = pool(burns={} if burn is None else {"first": burn})
    verdict = rails.metrics(case(blind, spec=spec), 3)
    assert judged(verdict) == (4, "metrics")
    assert verdict and "the burn rate of first of chat-eu is missing or old" in verdict.reason
    assert [rails.metrics(case(blind, spec=spec), count) for count in (4, 6)] == [None, None]
    assert rails.metrics(case(pool(burns={"first": BurnFacts(0.0, 15_000)}), spec=spec), 3) is None


def test_requests_that_miss_an_objective_hold_a_step_down_where_their_share_is_missing_or_old() -> None:
    spec = {"objective": "first", "reactive": {"bad_share": 0.05}}
    blind = BurnFacts(bad_share=0.0, bad_share_age_ms=0, unjudged=True)
    for burn in (BurnFacts(), BurnFacts(bad_share=0.0, bad_share_age_ms=61_000), blind):
        verdict = rails.metrics(case(pool(burns={"first": burn}), spec=spec), 3)
        assert judged(verdict) == (4, "metrics")
        assert verdict and "the share of requests that miss first of chat-eu is missing or old" in verdict.reason
        idle = pool(burns={"first": burn}, arrived_rps=0.0, in_flight=0.0)
        assert rails.metrics(case(idle, spec=spec), 3) is None, "nobody asks, and nothing is late"
    known = BurnFacts(bad_share=0.0, bad_share_age_ms=15_000)
    assert rails.metrics(case(pool(burns={"first": known}), spec=spec), 3) is None


@pytest.mark.parametrize("known", [{}, {"gpu_use": MetricFacts(0.4, 0.1, 121_000)}])
def test_a_stored_metric_that_is_missing_or_old_holds_a_step_down_alone(known: dict[str, MetricFacts]) -> None:
    spec = {"reactive": {"gpu_use": 0.8, "metrics": [{"name": "jobs", "most": 5}]}}
    jobs = {"jobs": MetricFacts(1.0, 1.0, 60_000)}
    verdict = rails.metrics(case(pool(metrics=known | jobs), spec=spec), 3)
    assert judged(verdict) == (4, "metrics")
    assert verdict and "gpu_use of chat-eu is missing or old. No replica is removed." in verdict.reason
    assert rails.metrics(case(pool(metrics=known | jobs), spec=spec), 6) is None
    assert rails.metrics(case(pool(metrics=jobs | {"gpu_use": MetricFacts(0.4, 0.1, 60_000)}), spec=spec), 3) is None
    sized = case(pool(metrics=jobs | {"gpu_use": MetricFacts(0.4, 0.1, 0)}, capacity_rps=None), spec=spec)
    assert rails.capacity(sized, 3) is None, "they say how many are needed"


@pytest.mark.parametrize(
    ("facts", "left", "kind"),
    [
        ({"ready": 0, "failing": 4}, 4, ""),
        ({"ready": 0, "starting": 4}, 4, ""),
        ({"reachable": False, "cut_off": 2}, 4, "metrics"),
        ({"reachable": True, "cut_off": 1}, 4, "metrics"),
        ({"ready": 1, "failing": 3}, None, ""),
        ({"reachable": None}, None, ""),
    ],
)
def test_no_replica_is_removed_while_requests_reach_none(facts: dict[str, Any], left: int | None, kind: str) -> None:
    verdict = rails.outage(case(pool(**facts)), 2)
    assert verdict is None if left is None else judged(verdict) == (left, kind)
    assert rails.outage(case(pool(**facts)), 6) is None


def test_nothing_is_removed_during_a_rollout_and_one_that_is_stuck_pages() -> None:
    under_way = pool(rollout="Deployment “chat” is replacing 2 replicas of an older template.")
    assert judged(rails.rollout(case(under_way), 2)) == (4, "")
    assert rails.rollout(case(under_way), 6) is None
    stuck = pool(rollout="The rollout of Deployment “chat” makes no progress.", rollout_stuck=True)
    assert judged(rails.rollout(case(stuck), 6)) == (6, "rollout")


UNSIZED: dict[str, Any] = {"capacity_rps": None}


@pytest.mark.parametrize(
    ("facts", "reactive", "left"),
    [
        (UNSIZED, {}, 4),
        (UNSIZED, {"waiting_per_replica": 2.0, "queue_delay_s": 1.0}, 4),
        (UNSIZED | {"in_flight": None}, {"in_flight_per_replica": 8.0}, 4),
        (UNSIZED, {"in_flight_per_replica": 8.0}, None),
        (UNSIZED | {"kv_use": 0.2}, {"kv_use": 0.8}, None),
        (UNSIZED | {"kv_use": 1.0, "waiting": 500.0, "ready": 1, "failing": 3}, {"kv_use": 0.8}, 4),
        (UNSIZED, {"replica_rps": 10.0}, None),
        ({}, {}, None),
    ],
)
def test_a_pool_of_unknown_capacity_loses_no_replica(
    facts: dict[str, Any], reactive: dict[str, Any], left: int | None
) -> None:
    its = case(pool(**facts), spec={"reactive": reactive})
    verdict = rails.capacity(its, 1)
    assert (verdict and judged(verdict)) == (left and (left, "capacity"))
    assert rails.capacity(its, 6) is None, "more may be added"


def test_a_pause_changes_nothing_until_its_end() -> None:
    paused = case(pause=Pause(NOW_MS + 600_000, "pool", "chat-eu", "ada", "a new kernel"))
    verdict = rails.pause(paused, 9)
    assert judged(verdict) == (4, "")
    assert verdict and verdict.reason == "paused by ada for another 10 min: a new kernel"
    assert rails.pause(case(), 9) is None


@pytest.mark.parametrize("name", ["step_up", "step_down", "cooldown", "rate", "hold_when"])
def test_a_persons_count_is_not_slowed(name: str) -> None:
    spec = {"scale_up": {"max_step": 1}, "rate": {"max_up": 1, "max_down": 1}, "hold_when": "ready > 0.0"}
    rail = next(rail for rail in RAILS if rail.name == name)
    memory = TargetMemory(steps=((NOW_MS - 1, 1), (NOW_MS - 1, -1)))
    for count in (1, 9):
        assert rail.apply(case(spec=spec, memory=memory, override=OVERRIDE), count) is None
