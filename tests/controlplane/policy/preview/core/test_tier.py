"""A policy of the API tier on what was recorded of it."""

from typing import Any

from controlplane.policy.core.observation import PoolFacts
from controlplane.policy.core.spec import InForce, Scaling
from controlplane.policy.preview.core.tier import TierWalk, between
from tests.support.policy.cases import policy

HOUR_MS = 3_600_000
NOON_MS = 20_000 * 24 * HOUR_MS + 12 * HOUR_MS


def tier(**spec: Any) -> InForce:
    return policy("Scaling", {"gateway": "gateway", "max": 9, **spec})


def walk(followed: InForce, start: int = 2) -> TierWalk:
    assert isinstance(followed.policy, Scaling)
    return TierWalk(followed, followed.policy.spec, start)


def facts(rps: float, **more: Any) -> PoolFacts:
    return PoolFacts("gateway:gateway", arrived_rps=rps, in_flight=1.0, traffic_age_ms=0, servers_age_ms=0, **more)


def test_the_count_follows_the_recorded_rate() -> None:
    walked = walk(tier(reactive={"replica_rps": 100, "utilisation": 0.5}))
    for at in range(12):
        walked.see(NOON_MS + at * 300_000, facts(300.0), 300_000)
    document = walked.document()
    assert (document["most_replicas"], document["changes"]) == (6, 1)
    assert document["mean_by_hour_utc"][12] == 6.0
    assert document["mean_by_hour_utc"][11] is None
    assert document["replica_hours"] == 6.0


def test_cpu_is_the_same_work_shared_by_another_count() -> None:
    walked = walk(tier(reactive={"cpu_use": 0.5}))
    for at in range(6):  # 8 replicas were 25 % busy: 2 replicas' worth of work, of which half is to be used
        walked.see(NOON_MS + at * 60_000, facts(10.0, cpu_use=0.25, ready=8, wanted=8), 60_000)
    assert walked.document()["most_replicas"] == 4


def test_a_moment_holds_until_the_next_but_not_through_a_gap() -> None:
    assert between([0, 10, 20, 1_000], 50) == [10, 10, 50, 0]
    assert between([], 50) == []
