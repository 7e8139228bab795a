"""What keeps policies from being followed pages the owner of what they are about."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from controlplane.fleet.core.stack_rows import Observed, PoolEntry, ReplicaEntry
from controlplane.incidents.components.core import alert_record
from controlplane.incidents.components.core.alert import ComponentAlert, key_of
from controlplane.incidents.components.core.judge import Limits, Observations, alerts
from controlplane.incidents.notify.core.page_text import Facts, summary

NOW = datetime(2026, 11, 21, 21, 50, tzinfo=UTC)
_TICKS = (("policies", 0), ("controller", 4))
LARGE = PoolEntry("large", "chat", "large-8b", "eu", replicas=(ReplicaEntry("a"),), owner="chat-team")


def _fault(component: str, since_s: float, page: float = 1.0) -> Observed:
    since = NOW - timedelta(seconds=since_s)
    return Observed(
        component, "down", NOW, {"page": page}, "The traffic was never seen.", up_at=since, down_since=since
    )


def _judged(*observed: Observed) -> dict[str, ComponentAlert]:
    components = {each.component: each for each in observed}
    seen = Observations((LARGE,), components, (), (), NOW - timedelta(hours=1), "platform")
    return {alert.component: alert for alert in alerts(seen, (), NOW, Limits())}


def test_a_fault_of_a_pool_pages_its_owner() -> None:
    alert = _judged(_fault("policy:metrics:large", 20))["policy:metrics:large"]
    assert (alert.state, alert.severity, alert.owner, alert.kind) == ("firing", "page", "chat-team", "policy_metrics")
    assert (alert.name, alert.scope["pool"]) == ("pool large", "large")
    assert _judged(_fault("policy:metrics:large", 2))["policy:metrics:large"].state == "unknown", "it has just begun"


def test_a_fault_of_a_cluster_pages_its_operators() -> None:
    alert = _judged(_fault("policy:cluster:east", 20))["policy:cluster:east"]
    assert (alert.state, alert.owner, alert.kind, alert.name) == ("firing", "platform", "cluster", "cluster east")


def test_a_fault_of_a_model_is_its_owners() -> None:
    alert = _judged(_fault("policy:canary:chat", 70, page=0.0))["policy:canary:chat"]
    assert (alert.state, alert.severity, alert.owner, alert.scope) == (
        "firing",
        "ticket",
        "chat-team",
        {"model": "chat"},
    )


def test_a_failover_is_what_its_policy_wants() -> None:
    alert = _judged(_fault("policy:failover:chat", 70, page=0.0))["policy:failover:chat"]
    facts = Facts(alert.name, alert_record.definition(alert), alert.scope, alert_record.present(alert, {}))
    assert summary(facts).startswith(
        "model chat is failed over since 21:48:50 UTC; The traffic was never seen; it ends by itself"
    )


def test_what_was_wrong_is_said_in_the_past_once_it_is_over() -> None:
    burning = alert_record.present(_judged(_fault("policy:metrics:large", 20))["policy:metrics:large"], {})
    alert = _judged(Observed("policy:metrics:large", "up", NOW, {"page": 1.0}, up_at=NOW))["policy:metrics:large"]
    facts = Facts(alert.name, alert_record.definition(alert), alert.scope, alert_record.present(alert, burning))
    assert alert.state == "quiet"
    assert "; the last reason was: The traffic was never seen; " in summary(facts)


def test_pools_without_metrics_are_explained_by_the_gateway() -> None:
    """One page says that it is down, and not one for each pool."""
    judged = _judged(_fault("policy:metrics:large", 20), _fault("policy:gpus:large", 20))
    assert judged["policy:metrics:large"].explained_by == (key_of("gateway"),)
    assert judged["policy:gpus:large"].explained_by == ()


def test_policies_wait_for_the_incident_of_the_controller_that_stopped_with_them() -> None:
    at = NOW - timedelta(seconds=37)
    ended = [Observed(name, "up", at + timedelta(seconds=more), up_at=at) for name, more in _TICKS]
    judged = _judged(*ended)
    assert (judged["controller"].state, judged["policies"].state) == ("unknown", "unknown")
    judged = _judged(*(replace(each, observed_at=at - timedelta(seconds=5)) for each in ended))
    assert (judged["controller"].state, judged["policies"].state) == ("firing", "firing")


def test_policies_that_stop_being_followed_page() -> None:
    at = NOW - timedelta(seconds=60)
    assert _judged(Observed("policies", "up", at, up_at=at))["policies"].state == "firing"
    assert _judged(Observed("policies", "up", NOW, up_at=NOW))["policies"].state == "quiet"
    assert "policies" not in _judged()


def test_ticks_that_fail_say_why_in_the_incident() -> None:
    at = NOW - timedelta(seconds=60)
    why = "the last tick failed: TypeError: unhashable type: 'dict'"
    assert _judged(Observed("policies", "up", at, error=why, up_at=at))["policies"].error == why
