"""Which components are down, since when, and what that explains."""

from collections.abc import Container
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.core.formatting import shortened
from controlplane.fleet.core.stack_rows import Observed, PoolEntry, ReplicaEntry
from controlplane.fleet.observe.core import ready
from controlplane.fleet.observe.core.reading import NOT_UNDERSTOOD
from controlplane.fleet.observe.core.ready import SIMILAR_WRONG, SPANS_REFUSED
from controlplane.fleet.observe.targets import GATEWAY
from controlplane.incidents.components.core.alert import ComponentAlert, key_of
from controlplane.incidents.components.core.judge import SIMILAR, Limits, Observations, alerts
from controlplane.incidents.components.core.unjudged import EXPLAINED_BY, SPANS, ObjectiveSeen
from controlplane.slo.core.maintenance_windows import MaintenanceWindow

NOW = datetime(2026, 11, 21, 21, 50, tzinfo=UTC)
LIMITS = Limits()
LARGE = PoolEntry(
    "large", "chat-large", "large-8b", "eu", replicas=(ReplicaEntry("one"), ReplicaEntry("two")), owner="serving"
)
SMALL = PoolEntry("small", "chat-small", "small-1b", "eu", replicas=(ReplicaEntry("one"),))


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def up(component: str, seconds: float = -2) -> Observed:
    return Observed(component, "up", at(seconds), up_at=at(seconds))


def down(
    component: str, since_s: float, seconds: float = -2, error: str = "refused", up_before_s: float = 5
) -> Observed:
    """Seen down from `since_s` on, and up `up_before_s` before that."""
    return Observed(
        component, "down", at(seconds), error=error, up_at=at(since_s - up_before_s), down_since=at(since_s)
    )


def judged(
    *observed: Observed, known: Container[str] = (), pools: tuple[PoolEntry, ...] = (LARGE, SMALL), **more: Any
) -> dict[str, ComponentAlert]:
    all_up = [up(one) for one in ("gateway", "telemetry", "redis", "worker", "controller")]
    all_up += [up(f"{pool.name}/{one.name}") for pool in pools for one in pool.replicas]
    components = {one.component: one for one in (*all_up, *observed)}
    seen = replace(Observations(pools, components, (), (), at(-3600), "platform"), **more)
    return {one.component: one for one in alerts(seen, known, NOW, LIMITS)}


def firing(found: dict[str, ComponentAlert]) -> set[str]:
    return {name for name, one in found.items() if one.state == "firing"}


def test_while_all_is_up_every_component_is_quiet_and_belongs_to_the_team_that_operates_it() -> None:
    found = judged()
    assert {one.state for one in found.values()} == {"quiet"}
    assert {name: alert.owner for name, alert in found.items()} == {
        **dict.fromkeys(("gateway", "telemetry", "redis", "worker", "controller", "observer"), "platform"),
        **dict.fromkeys(("pool:large", "large/one", "large/two"), "serving"),
        "pool:small": "",
    }


@pytest.mark.parametrize(
    ("component", "severity", "after_s"),
    [("gateway", "page", 15), ("telemetry", "page", 15), ("redis", "ticket", 60), ("lane", "ticket", 60)],
)
def test_a_process_fires_once_it_has_been_down_for_its_time(component: str, severity: str, after_s: float) -> None:
    assert judged(down(component, 0.1 - after_s))[component].state == "unknown", "a restart pages nobody"
    alert = judged(down(component, -after_s))[component]
    assert (alert.state, alert.severity, alert.since, alert.error) == ("firing", severity, at(-after_s), "refused")


def test_a_worker_without_tasks_names_what_redis_says_is_wrong() -> None:
    full = replace(up("redis"), state="degraded", error="it takes no writes")
    found = judged(full, up("worker", -90))
    assert (found["worker"].state, found["worker"].error) == ("firing", "Redis says: it takes no writes")
    assert judged(up("worker", -90))["worker"].error == ""


def test_answers_for_similar_requests_that_became_wrong_are_a_ticket_for_as_long_as_the_gateway_says_so() -> None:
    wrong = SIMILAR_WRONG.text.format(model="chat")
    said = Observed(
        "gateway", "degraded", at(-2), up_at=at(-9), error=f"no replica is up in pool a; {wrong}; in the clear: x"
    )
    alert = judged(said)[SIMILAR]
    assert (alert.state, alert.severity, alert.error) == ("firing", "ticket", wrong)
    assert (alert.since, alert.owner) == (at(-2), "platform")
    key = {key_of(SIMILAR)}
    kept = judged(said, known=key)[SIMILAR]
    assert (kept.state, kept.since) == ("firing", None), "the incident knows since when"
    assert judged(known=key)[SIMILAR].state == "quiet"
    assert judged(down("gateway", -30), known=key)[SIMILAR].state == "unknown"
    assert judged(replace(said, observed_at=at(-900)), known=key)[SIMILAR].state == "unknown"


def test_spans_that_telemetry_refuses_are_a_page_that_says_why_and_since_when() -> None:
    refused = SPANS_REFUSED.text.format(reason="HTTP 503")
    said = Observed("gateway", "degraded", at(-2), up_at=at(-2), error=refused)
    alert = judged(said)[SPANS]
    assert (alert.state, alert.severity, alert.error, alert.since) == ("firing", "page", refused, at(-32))
    assert alert.explained_by == (key_of("telemetry"),) and alert.key in EXPLAINED_BY
    full = Observed("telemetry", "degraded", at(-2), up_at=at(-2), error="its disk is full")
    assert judged(said, full)[SPANS].error == f"{refused}; Telemetry says: its disk is full"
    assert SPANS not in judged()


def test_a_fault_that_the_gateway_may_have_unsaid_is_not_over() -> None:
    key = {key_of(SPANS)}
    assert judged(known=key)[SPANS].state == "quiet"
    pools = "; ".join(f"no replica is up in pool {number}" for number in range(40))
    refused = ready.reading(200, "", 401, "", GATEWAY).error
    for error in (shortened(pools, 500), refused, f"{NOT_UNDERSTOOD}: a proxy's page"):
        said = replace(up("gateway"), state="degraded", error=error)
        assert judged(said, known=key)[SPANS].state == "unknown", error
        assert SPANS not in judged(said)


def test_that_spans_are_refused_is_said_beside_any_number_of_pools() -> None:
    page = "".join(f'weir_gateway_pool_replicas_up{{pool="{number}"}} 0\n' for number in range(40))
    page += 'weir_gateway_spans_refused{reason="HTTP 503"} 1\n'
    error = shortened(ready.reading(503, '{"reason": "no replica is ready"}', 200, page, GATEWAY).error, 500)
    assert judged(replace(up("gateway"), state="degraded", error=error))[SPANS].state == "firing"


def test_what_is_down_again_while_its_incident_is_open_fires_at_once() -> None:
    assert judged(down("gateway", -1), known={key_of("gateway")})["gateway"].state == "firing"


def test_what_was_not_seen_up_just_before_gets_the_time_of_a_start() -> None:
    for before in (Observed("gateway", "down", at(-2), down_since=at(-299)), down("gateway", -299, up_before_s=86_400)):
        assert judged(before)["gateway"].state == "unknown"
    assert judged(Observed("gateway", "down", at(-2), down_since=at(-300)))["gateway"].state == "firing"


def test_one_replica_of_two_is_a_ticket_and_its_pool_is_up() -> None:
    found = judged(down("large/one", -60))
    assert firing(found) == {"large/one"}
    assert (found["large/one"].severity, found["large/one"].owner) == ("ticket", "serving")
    assert (found["pool:large"].state, found["pool:large"].up, found["pool:large"].of) == ("quiet", 1, 2)


def test_a_pool_is_down_since_its_last_replica_was_and_its_replicas_open_nothing() -> None:
    found = judged(down("large/one", -300, error="gone"), down("large/two", -15))
    assert firing(found) == {"pool:large"}
    pool = found["pool:large"]
    assert (pool.severity, pool.up, pool.of, pool.since) == ("page", 0, 2, at(-15))
    assert pool.error == "gone; refused"
    assert pool.scope == {"model": "chat-large", "variant": "large-8b", "pool": "large", "region": "eu"}


def test_a_pool_explains_what_no_other_pool_serves() -> None:
    one = judged(down("large/one", -20), down("large/two", -20))["pool:large"]
    assert one.explains == ({"pool": "large"}, {"variant": "large-8b"}, {"model": "chat-large"})
    both = judged(down("large/one", -20), down("large/two", -20), down("small/one", -20))
    assert {} in both["pool:large"].explains
    assert {"region": "eu"} in both["pool:small"].explains
    twin = replace(SMALL, model="chat-large")
    assert {"model": "chat-large"} not in judged(down("small/one", -20), pools=(LARGE, twin))["pool:small"].explains


def test_a_pool_of_which_a_replica_is_not_observed_is_unknown() -> None:
    found = judged(down("large/one", -60), up("large/two", -30))
    assert found["pool:large"].state == "unknown"


def test_disabled_pools_and_replicas_make_no_alert() -> None:
    off = replace(LARGE, replicas=(ReplicaEntry("one"), ReplicaEntry("two", enabled=False)))
    found = judged(down("large/two", -900), pools=(off, replace(SMALL, enabled=False)))
    assert found["pool:large"].state == "quiet"
    assert not {"large/one", "large/two", "pool:small"} & found.keys()


def test_when_nobody_looks_nothing_is_judged_but_that() -> None:
    long_ago = [replace(up(one), observed_at=at(-40)) for one in ("gateway", "telemetry", "redis")]
    found = judged(*long_ago, down("large/one", -600, seconds=-40), down("large/two", -600, seconds=-40))
    assert firing(found) == {"observer"}
    assert found["observer"].since == at(-40)
    assert {found[one].state for one in ("gateway", "pool:large", "large/one")} == {"unknown"}


def test_a_worker_that_has_just_started_does_not_blame_the_time_when_it_was_away() -> None:
    old = [replace(up(one), observed_at=at(-900)) for one in ("gateway", "telemetry", "redis", "controller", "worker")]
    assert firing(judged(*old, watching_since=at(-100))) == set()
    assert firing(judged(*old, watching_since=at(-301))) == {"observer", "controller", "worker"}


def test_what_has_never_been_heard_of_fires_once_a_start_would_be_over() -> None:
    seen = Observations((), {one: up(one) for one in ("gateway", "telemetry", "redis")}, (), (), at(-301), "platform")
    found = {one.component: one for one in alerts(seen, (), NOW, LIMITS)}
    assert firing(found) == {"controller", "worker"}
    assert (found["worker"].since, found["worker"].up_at) == (at(-301), None)
    assert not firing({one.component: one for one in alerts(replace(seen, watching_since=at(-299)), (), NOW, LIMITS)})


def test_a_controller_that_is_not_heard_of_is_a_page_that_telemetry_may_explain() -> None:
    alert = judged(replace(up("controller"), observed_at=at(-35)))["controller"]
    assert (alert.state, alert.severity, alert.since) == ("firing", "page", at(-35))
    assert alert.explained_by == (key_of("telemetry"),)
    assert judged(replace(up("controller"), observed_at=at(-34)))["controller"].state == "unknown"


def test_a_controller_that_ticks_and_judges_nothing_is_a_page_that_says_why() -> None:
    seen = Observed("controller", "degraded", at(-2), error="the ledger cannot be read", up_at=at(-35))
    alert = judged(seen)["controller"]
    assert (alert.state, alert.since, alert.error) == ("firing", at(-35), "the ledger cannot be read")
    assert judged(replace(seen, up_at=at(-34)))["controller"].state == "unknown"
    never = judged(replace(seen, up_at=None), watching_since=at(-301))["controller"]
    assert (never.state, never.up_at) == ("firing", None)


def test_a_window_for_all_objectives_is_planned_for_the_components_in_its_scope() -> None:
    window = MaintenanceWindow("update", datetime(2026, 11, 21, 21, 0), "UTC", 7200, scope={"model": "chat-large"})
    found = judged(planned=(window,))
    assert {name for name, one in found.items() if one.maintenance} == {"pool:large", "large/one", "large/two"}
    assert all(one.maintenance for one in judged(planned=(replace(window, scope={}),)).values())
    assert not any(one.maintenance for one in judged(planned=(replace(window, objectives=frozenset({"x"})),)).values())


def seen(name: str, owner: str = "", since_s: float = -400, why: str = "", **more: Any) -> ObjectiveSeen:
    return replace(ObjectiveSeen(name, owner, bool(why), at(since_s), at(-5), why), **more)


def test_objectives_that_are_unknown_for_too_long_are_one_alert_for_each_owner() -> None:
    objectives = [
        seen("a", "search", why="telemetry is 50 s behind"),
        seen("b", "search", since_s=-900, why="telemetry is 61.5 s behind"),
        seen("c", "search"),
        seen("d", "chat", why="slices of 900 s and 1200 s"),
        seen("e", since_s=-299, why="too new"),
    ]
    found = judged(objectives=objectives)
    assert firing(found) == {"objectives:search", "objectives:chat"}
    alert = found["objectives:search"]
    assert (alert.names, alert.owner, alert.since, alert.error) == (
        ("a", "b"),
        "search",
        at(-900),
        "telemetry is 50 s behind",
    )
    assert (alert.up, alert.of, alert.severity) == (1, 3, "page")
    assert found["objectives"].state == "unknown"


def test_the_list_of_objectives_is_bounded_and_the_reasons_are_grouped() -> None:
    objectives = [seen(f"n{number:02}", why="one" if number else "other") for number in range(30)]
    alert = judged(objectives=objectives)["objectives"]
    assert alert.names == (*(f"n{number:02}" for number in range(8)), "22 more")
    assert alert.error == "29 because one; 1 because other"


def test_states_that_nobody_writes_any_more_are_not_judged() -> None:
    old = [seen("a", why="x", at=at(-61))]
    assert judged(objectives=old)["objectives"].state == "unknown"
    assert judged(objectives=[seen("a")])["objectives"].state == "quiet"
