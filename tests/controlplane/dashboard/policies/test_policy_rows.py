"""How a pool stands on the pages of policies."""

from typing import Any

import pytest

from controlplane.dashboard.core.policy_rows import headline, target_rows
from controlplane.policy.core.decide import decide
from controlplane.policy.core.memory import LoadMemory, Memory, TargetMemory
from controlplane.policy.core.record import Record, record_of
from tests.support.policy.cases import POOL, pool, scaling, seen


def record(**facts: Any) -> Record:
    observation, policies = seen(pool(**facts)), [scaling()]
    return record_of(observation, policies, Memory(), decide(observation, policies, Memory()))


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({}, "as wanted"),
        ({"traffic_age_ms": None}, "held"),
        ({"wanted": None}, "unknown"),
        ({"ready": 1, "draining": 1}, "not all ready"),
        ({"disabled": True}, "disabled"),
        ({"disabled": True, "wanted": None, "cluster_age_ms": None}, "disabled"),
    ],
)
def test_a_disabled_pool_is_neither_held_nor_unknown(facts: dict[str, Any], words: str) -> None:
    decided = record(**facts)
    (row,) = target_rows(decided)
    assert row["look"].words == words
    said = headline(decided, (), None)
    assert {name: said[name] for name in ("unknown", "holding", "not_ready")} == {
        "unknown": [POOL] if words == "unknown" else [],
        "holding": [POOL] if words == "held" else [],
        "not_ready": [POOL] if words == "not all ready" else [],
    }
    if words == "disabled":
        assert "is disabled in the admin" in row["target"].reason
        assert decided.decision.alarms == ()


def test_what_arrives_is_the_steady_rate_and_not_that_of_one_tick() -> None:
    observation, policies = seen(pool(arrived_rps=7.0)), [scaling()]
    load = LoadMemory(at_ms=observation.now_ms - 1000, quick_rps=3.0, steady_rps=2.5, over_s=200.0)
    memory = Memory(targets={POOL: TargetMemory(load=load)})
    (row,) = target_rows(record_of(observation, policies, memory, decide(observation, policies, memory)))
    assert row["steady_rps"] == 2.5
    assert target_rows(record(arrived_rps=7.0))[0]["steady_rps"] == 7.0


def test_counts_of_a_cluster_that_does_not_answer_are_shown_with_their_age() -> None:
    assert [target_rows(record(ready=3, cluster_age_ms=age))[0]["has"] for age in (None, 900, 120_000)] == [
        "3 ready",
        "3 ready",
        "3 ready 2\u202fmin ago",
    ]
    for age_ms, has in (
        (900, "3 ready"),
        (120_000, "3 ready 3\u202fmin ago"),
    ):  # a record of a minute ago that still holds
        decided = record(ready=3, cluster_age_ms=age_ms)
        assert target_rows(decided, decided.decided_at_ms + 60_000)[0]["has"] == has


def test_traffic_that_is_old_is_shown_with_its_age() -> None:
    assert [target_rows(record(traffic_age_ms=age))[0]["traffic_old_s"] for age in (None, 900, 52_000)] == [
        None,
        None,
        52,
    ]
