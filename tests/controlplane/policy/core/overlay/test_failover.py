"""Failover between pools: soon there, slowly back, and unknown changes nothing."""

from typing import Any

import pytest

from controlplane.policy.core.memory import FailoverMemory
from controlplane.policy.core.observation import ClusterFacts, ModelFacts, PoolFacts, Silent, TierFacts
from controlplane.policy.core.overlay.failover import FailedOver, fail_over, is_down, unmoved
from controlplane.policy.core.spec import Routing, RoutingSpec
from inference.contract.snapshot import Model, Route, Tenant
from tests.support.policy.cases import NOW_MS, policy, pool

UP, DOWN = pool(reachable=True), pool(reachable=False)
UNKNOWN = pool(reachable=None, cluster_age_ms=None)


def routing(*failovers: dict[str, Any]) -> RoutingSpec:
    document = policy("Routing", {"model": "chat", "failover": list(failovers)}).policy
    assert isinstance(document, Routing)
    return document.spec


EDGE = {"name": "edge-down", "pools": ["edge"], "to": {"central": 3, "far": 1}, "min_stay_s": 60}


class Failovers:
    def __init__(self, *failovers: dict[str, Any]) -> None:
        self.spec, self.memory, self.now_ms = routing(*failovers), dict[str, FailoverMemory](), NOW_MS

    def tick(self, after_s: float = 1.0, tiers: dict[str, TierFacts] | None = None, **pools: PoolFacts) -> FailedOver:
        self.now_ms += round(after_s * 1_000)
        clusters = {"eu": ClusterFacts("eu", 500)}
        model = ModelFacts("chat", tiers=tiers or {})
        after = fail_over(self.spec, self.memory, pools, clusters, model, self.now_ms)
        self.memory = after.memory
        return after


@pytest.mark.parametrize(
    ("facts", "down"),
    [
        (UP, False),
        (DOWN, True),
        (UNKNOWN, None),
        (None, None),
        (pool(reachable=True, ready=0), False),
        (pool(reachable=False, traffic_age_ms=30_001), None),
        (pool(reachable=None, ready=0), True),
    ],
)
def test_a_pool_is_down_where_gateways_reach_none_of_its_replicas(facts: PoolFacts | None, down: bool | None) -> None:
    assert is_down(facts) is down


def test_a_pool_that_is_down_gives_its_traffic_to_others_at_once() -> None:
    edge = Failovers(EDGE)
    assert edge.tick(edge=UP, central=UP, far=UP).moved == {}
    after = edge.tick(edge=DOWN, central=UP, far=UP)
    assert after.moved == {"edge": {"central": 3, "far": 1}}
    assert [(each.before, each.after, each.reason) for each in after.transitions] == [
        ("off", "active", "none of edge can serve")
    ]
    assert [alarm.text for alarm in after.alarms] == [
        "edge-down sends the requests of edge to central, far, since none of edge could serve."
    ]


def test_it_goes_back_after_the_pool_was_well_for_a_while() -> None:
    edge = Failovers(EDGE)
    edge.tick(edge=DOWN, central=UP, far=UP)
    edge.tick(100, edge=UP, central=UP, far=UP)
    edge.tick(59, edge=UP, central=UP, far=UP)
    assert edge.tick(0.5, edge=DOWN, central=UP, far=UP).moved
    edge.tick(1, edge=UP, central=UP, far=UP)
    assert edge.tick(59, edge=UP, central=UP, far=UP).moved
    after = edge.tick(1, edge=UP, central=UP, far=UP)
    assert after.moved == {}
    assert after.transitions[0].reason == "no longer: none of edge can serve"
    assert after.alarms == ()


def test_unknown_leaves_it_as_it_is() -> None:
    edge = Failovers(EDGE)
    before = edge.tick(edge=UNKNOWN, central=UP, far=UP)
    assert (before.moved, [(alarm.kind, alarm.severity) for alarm in before.alarms]) == ({}, [("condition", "ticket")])
    assert "the state of edge" in before.alarms[0].text
    edge.tick(edge=DOWN, central=UP, far=UP)
    after = edge.tick(600, edge=UNKNOWN, central=UP, far=UP)
    assert after.moved
    assert after.transitions[0].reason == "stays as it is: unknown are the state of edge"
    edge.tick(1, edge=UP, central=UP, far=UP)
    assert edge.tick(59, edge=UP, central=UP, far=UP).moved, "the time when it was unknown does not count as well"


def test_a_pool_that_is_down_too_gets_nothing() -> None:
    edge = Failovers(EDGE)
    assert edge.tick(edge=DOWN, central=DOWN, far=UP).moved == {"edge": {"far": 1}}
    after = edge.tick(edge=DOWN, central=DOWN, far=DOWN)
    assert after.moved == {}
    assert [alarm.severity for alarm in after.alarms] == ["page"]
    assert edge.tick(edge=DOWN, central=UP, far=DOWN).moved == {"edge": {"central": 3}}
    after = Failovers(EDGE).tick(edge=DOWN, central=DOWN, far=DOWN)
    assert after.memory["edge-down"].active is False
    assert "none of central, far can serve either" in after.transitions[0].reason


def test_two_regions_fail_over_to_each_other() -> None:
    both = Failovers(
        {"name": "east", "pools": ["east"], "to": {"west": 1}}, {"name": "west", "pools": ["west"], "to": {"east": 1}}
    )
    assert both.tick(east=DOWN, west=UP).moved == {"east": {"west": 1}}
    assert both.tick(120, east=UP, west=DOWN).moved == {"west": {"east": 1}}


def test_an_owners_condition_decides_where_there_is_one() -> None:
    slow = Failovers({**EDGE, "when": "queue_delay_s > 5.0 || burn_rate_fast > 14.0 || !cluster_up"})
    assert slow.tick(edge=pool(queue_delay_s=1.0), central=UP, far=UP).moved == {}
    assert slow.tick(edge=pool(queue_delay_s=6.0), central=UP, far=UP).moved
    burning = Failovers({**EDGE, "when": "burn_rate_fast > 14.0"})
    tiers = {"batch": TierFacts("batch", burn_rate_fast=20.0, age_ms=0), "premium": TierFacts("premium", age_ms=0)}
    assert burning.tick(tiers=tiers, edge=UP, central=UP, far=UP).moved
    silent = {
        "batch": TierFacts("batch", unjudged=("whole",)),
        "premium": TierFacts("premium", burn_rate_fast=0.0, age_ms=0),
    }
    for _ in range(2):
        after = burning.tick(300, tiers=silent, edge=UP, central=UP, far=UP)
        assert after.moved and "unknown are burn_rate_fast" in after.transitions[0].reason


def test_while_paused_it_stays_as_it_is() -> None:
    spec = routing(EDGE)
    pools, model = {"edge": DOWN, "central": UP, "far": UP}, ModelFacts("chat")
    assert fail_over(spec, {}, pools, {}, model, NOW_MS, paused=True).moved == {}


def test_disabled_pools_neither_fail_over_nor_get_what_others_had() -> None:
    edge, off = Failovers(EDGE), pool(disabled=True, reachable=None, ready=0)
    assert edge.tick(edge=DOWN, central=off, far=UP).moved == {"edge": {"far": 1}}
    for condition in ({}, {"when": "!reachable"}):
        edge = Failovers({**EDGE, **condition})
        after = edge.tick(edge=off, central=UP, far=UP)
        assert (after.moved, after.alarms, after.transitions) == ({}, (), ())


def test_a_cluster_that_was_never_read_is_not_down() -> None:
    spec, pools = routing({**EDGE, "when": "!cluster_up"}), {"edge": UP, "central": UP, "far": UP}
    for cluster, moves in ((ClusterFacts("eu"), False), (ClusterFacts("eu", 500, "connection refused"), True)):
        after = fail_over(spec, {}, pools, {"eu": cluster}, ModelFacts("chat"), NOW_MS)
        assert bool(after.moved) is moves


@pytest.mark.parametrize(
    ("waiting", "silent", "moved"),
    [(300.0, None, True), (300.0, 50.0, True), (300.0, 150.0, False), (100.0, 90.0, False)],
)
def test_what_a_silent_gateway_had_begins_nothing_and_ends_nothing(
    waiting: float, silent: float | None, moved: bool
) -> None:
    """Its clients may be at the other gateways by now, where their requests count too."""
    busy = {"name": "busy", "pools": ["edge"], "to": {"central": 1}, "when": "waiting > 200.0", "min_stay_s": 0}
    edge = pool(waiting=waiting, silent=None if silent is None else Silent(waiting=silent))
    assert bool(Failovers(busy).tick(edge=edge, central=UP).moved) is moved
    active = Failovers(busy)
    assert active.tick(edge=pool(waiting=900.0), central=UP).moved
    still = active.tick(edge=edge, central=UP)
    assert bool(still.moved) is (waiting > 200.0)


@pytest.mark.parametrize(
    ("tenants", "models", "stays"),
    [
        ((), (), False),
        (("eu",), (), False),
        (("us",), (), True),  # it may be served where it was, and not where it would go
        (("asia",), (), False),  # it was not served there either
        (("us", "eu"), ("us",), True),
        ((), ("eu",), False),
    ],
)
def test_a_tenant_stays_where_no_pool_to_go_to_is_in_its_regions(
    tenants: tuple[str, ...], models: tuple[str, ...], stays: bool
) -> None:
    [failover] = routing(EDGE).failover
    model = Model("m", (Route("edge"),), regions=models)
    tenant = Tenant("acme", "t", (), regions=tenants)
    regions = {"edge": "us", "central": "eu", "other": "us"}
    assert unmoved(failover, model, regions, [tenant]) == (["acme"] if stays else [])


def test_a_tenant_moves_where_one_of_several_pools_is_in_its_regions() -> None:
    [failover] = routing(EDGE | {"to": {"central": 1, "other": 1}}).failover
    regions = {"edge": "us", "central": "eu", "other": "us"}
    assert unmoved(failover, Model("m", (Route("edge"),)), regions, [Tenant("acme", "t", (), regions=("us",))]) == []
