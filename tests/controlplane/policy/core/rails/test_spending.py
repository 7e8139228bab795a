"""Rails of GPUs, GPU-hours and money."""

from typing import Any

import pytest

from controlplane.policy.core.observation import ClusterFacts, Gpus, Override, Spent
from controlplane.policy.core.rails import spending
from tests.support.policy.cases import NOW_MS, case, judged, pool


def cluster(allocatable: int, requested: int, **its: bool) -> ClusterFacts:
    return ClusterFacts("eu", 500, gpus={"h100": Gpus(allocatable, requested, **its)})


def test_past_the_gpu_hours_or_the_money_of_a_day_a_pool_has_its_minimum() -> None:
    spec = {"budget": {"gpu_hours_per_day": 100}, "min": 2}
    assert judged(spending.gpu_hours(case(spec=spec, spent=Spent(100.0, age_ms=1_000)), 4)) == (2, "budget")
    assert spending.gpu_hours(case(spec=spec, spent=Spent(99.9, age_ms=1_000)), 9) is None
    assert spending.gpu_hours(case(spec=spec, spent=Spent(200.0, age_ms=1_000)), 2) is None
    spec = {"budget": {"usd_per_day": 50}}
    verdict = spending.usd(case(spec=spec, spent=Spent(10.0, 50.5, 1_000)), 4)
    assert judged(verdict) == (1, "budget")
    assert verdict
    assert verdict.reason == "chat-eu has used 50.5 USD today (UTC), and its budget is 50. It may keep 1 replica."


def test_a_budget_lets_a_persons_count_add_nothing_and_takes_nothing_from_it() -> None:
    others: dict[str, Any] = {"spent": Spent(1.0, 60.0, 1_000), "override": Override(NOW_MS + 1, "chat-eu", 3)}
    spec = {"budget": {"usd_per_day": 50}}
    assert judged(spending.usd(case(spec=spec, **others), 6)) == (4, "budget")
    assert spending.usd(case(spec=spec, **others), 3) is None


@pytest.mark.parametrize("spent", [None, Spent(1.0, 1.0), Spent(1.0, 1.0, 1_800_001), Spent(1.0, None, 1_000)])
def test_without_knowing_what_is_spent_nothing_is_added(spent: Spent | None) -> None:
    spec = {"budget": {"usd_per_day": 50}}
    assert judged(spending.usd(case(spec=spec, spent=spent), 6)) == (4, "budget")
    assert spending.usd(case(spec=spec, spent=spent), 3) is None
    gpus = case(spec={"budget": {"gpu_hours_per_day": 50}}, spent=Spent(None, 1.0, 1_000))
    assert judged(spending.gpu_hours(gpus, 6)) == (4, "budget")


@pytest.mark.parametrize(
    ("budget", "facts", "spent", "remedy"),
    [
        (
            "usd_per_day", {"usd_per_replica_hour": None}, Spent(1.0, None, 1_000),
            "Enter the pool's GPU type (admin, Plan → Pools' capacities) and what an hour of it costs (Plan → GPU types).",
        ),
        (
            "gpu_hours_per_day", {"gpus_per_replica": None}, Spent(None, 1.0, 1_000),
            "Enter how many GPUs a replica has (admin, Plan → Pools' capacities).",
        ),
        (
            "usd_per_day", {"usd_per_replica_hour": 4.0}, Spent(None, None, 1_000),
            "It was not known earlier today what a replica costs: it is known again from 00:00 UTC on.",
        ),
        ("usd_per_day", {}, None, "Its replicas have not been counted lately: see whether its cluster answers."),
    ],
)  # fmt: skip
def test_a_budget_of_which_the_use_is_not_known_says_what_to_enter_and_where(
    budget: str, facts: dict[str, Any], spent: Spent | None, remedy: str
) -> None:
    rail = spending.usd if budget == "usd_per_day" else spending.gpu_hours
    verdict = rail(case(pool(**facts), spec={"budget": {budget: 50}}, spent=spent), 6)
    assert verdict and verdict.alarm
    assert verdict.alarm.text.endswith(f"is not known. No replica is added. {remedy}")


def test_a_pool_has_no_more_gpus_than_its_policy_allows() -> None:
    assert judged(spending.gpus(case(spec={"budget": {"gpus": 7}}), 9)) == (3, "")
    assert spending.gpus(case(spec={"budget": {"gpus": 7}}), 3) is None
    assert spending.gpus(case(pool(gpus_per_replica=0), spec={"budget": {"gpus": 7}}), 9) is None
    unknown = pool(gpus_per_replica=None)
    assert judged(spending.gpus(case(unknown, spec={"budget": {"gpus": 7}}), 9)) == (4, "budget")


def test_no_more_is_wanted_than_the_cluster_has_free_gpus_for() -> None:
    verdict = spending.quota(case(cluster=cluster(16, 11)), 9)
    assert judged(verdict) == (6, "gpus")
    assert verdict
    assert verdict.reason == "eu has 5 free GPUs of type h100, and 5 replicas more of chat-eu would need 10."
    assert spending.quota(case(cluster=cluster(16, 11)), 6) is None
    assert judged(spending.quota(case(cluster=cluster(8, 8)), 5)) == (4, "gpus")


def test_gpus_of_this_tick_and_of_replicas_on_their_way_are_not_free() -> None:
    assert judged(spending.quota(case(cluster=cluster(16, 8), reserved_gpus=4), 9)) == (6, "gpus")
    coming = pool(wanted=6, ready=4)
    assert judged(spending.quota(case(coming, cluster=cluster(16, 8)), 9)) == (8, "gpus")
    for placed in ({"starting": 1}, {"failing": 1}):
        coming = pool(wanted=6, ready=4, **placed)
        assert judged(spending.quota(case(coming, cluster=cluster(16, 8)), 12)) == (9, "gpus")


def test_a_quota_has_what_waits_for_a_node_already_and_not_what_is_still_to_be_created() -> None:
    """Those that wait were counted twice: pools with room in their quota were not scaled."""
    waits = pool(wanted=6, ready=4, pending=2)
    assert judged(spending.quota(case(waits, cluster=cluster(16, 12, waiting_too=True)), 12)) == (8, "gpus")
    assert judged(spending.quota(case(waits, cluster=cluster(16, 12)), 12)) == (6, "gpus")
    waits = pool(wanted=6, ready=4, pending=1)
    assert judged(spending.quota(case(waits, cluster=cluster(16, 10, waiting_too=True)), 12)) == (8, "gpus")


@pytest.mark.parametrize(
    ("facts", "spec", "seen"),
    [
        ({}, {"cluster_adds_nodes": True}, cluster(8, 8)),
        ({"gpus_per_replica": None}, {}, cluster(8, 8)),
        ({"gpu": "l40s"}, {}, cluster(8, 8)),
        ({}, {}, None),
    ],
)
def test_free_gpus_that_are_not_known_or_can_grow_set_no_limit(
    facts: dict[str, Any], spec: dict[str, Any], seen: ClusterFacts | None
) -> None:
    assert spending.quota(case(pool(**facts), spec=spec, cluster=seen), 9) is None
