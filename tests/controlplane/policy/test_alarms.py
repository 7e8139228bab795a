"""Alarms of decisions, in the index of changes: each has its subject, whatever that is."""

from datetime import UTC, datetime, timedelta

import pytest

from controlplane.fleet import models
from controlplane.fleet.clusters.errors import ForbiddenError
from controlplane.fleet.clusters.port import ClusterSeen
from controlplane.incidents.decide.watch import look
from controlplane.incidents.models import Incident
from controlplane.policy.act.journal import at
from controlplane.policy.core.decision import Alarm, Decision, ModelDecision, Rail, TargetDecision
from controlplane.policy.core.memory import Memory
from controlplane.policy.core.observation import Observation
from controlplane.policy.core.rails import rails
from controlplane.policy.core.record import Record
from controlplane.policy.faults import Fault, of_tick, report, unseen
from controlplane.policy.observe.gather import _cluster
from controlplane.policy.write_records import changes
from tests.support.policy.cases import case, pool
from tests.support.policy.world import CLUSTER, POOL, World, fleet, revision, scaling, world_of

AWAY = "The replicas in east were last seen 61 s ago."
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("subject", "pool", "model"), [("chat/eu", "chat/eu", ""), ("chat", "", "chat"), ("eu-west", "", "")]
)
def test_the_subject_is_a_pool_or_a_model_only_where_it_is_one(subject: str, pool: str, model: str) -> None:
    decision = Decision(
        1,
        {"chat/eu": TargetDecision("chat/eu", "p@1", 2, 2, "none", "")},
        {"chat": ModelDecision("chat")},
        (Alarm(f"metrics:{subject}", "metrics", subject, "nothing is known", "page"),),
        Memory(),
    )
    record = Record(1, 0, Observation(now_ms=0), (), Memory(), decision)
    [change] = [each for each in changes(record, {}, (), NOW) if each.kind == "alarm"]
    assert (change.subject, change.pool, change.model, change.about) == (subject, pool, model, subject)


def away(reason: str = AWAY) -> Decision:
    rail = Rail("cluster", 2, 2, reason)
    target = TargetDecision("chat/eu", "p@1", 2, None, "hold", reason, rails=(rail,))
    return Decision(1, {"chat/eu": target}, {}, (Alarm("cluster:east", "cluster", "east", AWAY, "page"),), Memory())


@pytest.mark.django_db
def test_a_fault_is_not_over_while_nobody_can_see_whether_it_is() -> None:
    """The cluster is away: nothing else of its pools was judged. Other pools' faults end."""
    fleet({"chat/eu": "chat", "other": "other"})
    faults = [Fault("metrics", "chat/eu", "no traffic"), Fault("metrics", "other", "no traffic")]
    report(faults, NOW)
    report([], NOW + timedelta(seconds=10), unseen(away()))
    rows = {row.component: row.state for row in models.Observation.objects.all()}
    assert rows == {"policy:metrics:chat/eu": "down", "policy:metrics:other": "up"}
    report([], NOW + timedelta(seconds=20), unseen(away("chat/eu is disabled in the admin.")))
    assert models.Observation.objects.get(component="policy:metrics:chat/eu").state == "up"


@pytest.mark.django_db
def test_a_fault_of_what_has_left_the_fleet_goes_and_is_not_said_to_be_over() -> None:
    fleet({"chat/eu": "chat"})
    there = [Fault("metrics", "chat/eu", "no traffic"), Fault("cluster", CLUSTER, "it is away")]
    gone = [Fault("owner", "gone", "a hand"), Fault("snapshot", "gone", "refused"), Fault("memory", "active", "lost")]
    report([*there, *gone], NOW)
    report([], NOW + timedelta(seconds=10))
    rows = {row.component: row.state for row in models.Observation.objects.all()}
    assert rows == {"policy:metrics:chat/eu": "up", f"policy:cluster:{CLUSTER}": "up", "policy:memory:active": "up"}
    report(there, NOW + timedelta(seconds=12))
    models.Pool.objects.update(enabled=False)
    report([], NOW + timedelta(seconds=14))
    assert not models.Observation.objects.filter(component="policy:metrics:chat/eu").exists()
    models.Cluster.objects.update(enabled=False)
    report([Fault("cluster", CLUSTER, "it is away")], NOW + timedelta(seconds=20))
    report([], NOW + timedelta(seconds=30))
    assert not models.Observation.objects.filter(component=f"policy:cluster:{CLUSTER}").exists()


@pytest.mark.django_db
def test_a_fault_of_a_clock_that_was_ahead_is_said_as_it_is_now() -> None:
    report([Fault("metrics", "chat/eu", "no traffic for 1 h")], NOW + timedelta(hours=1))
    report([Fault("metrics", "chat/eu", "no traffic for 2 s")], NOW)
    row = models.Observation.objects.get()
    assert (row.error, row.observed_at) == ("no traffic for 2 s", NOW)


@pytest.mark.django_db
def test_a_cluster_that_is_away_for_long_still_says_why() -> None:
    """In the record and on the screens as in the page."""
    seen = _cluster(ClusterSeen("east", seen_ms=0, problem="Its token has expired."), {}, 61_000)
    verdict = rails.cluster(case(pool(cluster="east", cluster_age_ms=61_000), cluster=seen), 1)
    assert verdict
    assert verdict.alarm
    assert (
        verdict.reason
        == "The replicas in east were last seen 61 s ago: Its token has expired. The count stays as it is."
    )
    decision = Decision(1, {}, {}, (verdict.alarm,), Memory())
    [fault] = of_tick(decision, {}, {}, {}, (), NOW)
    assert fault.text == verdict.reason


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("state", ["retired", "active"])
def test_a_fault_of_a_policy_that_is_retired_is_not_said_to_be_over(state: str) -> None:
    """It said “is as its policy wants it again”, and of missing metrics “has metrics again”."""
    world = world_of(2)
    row = revision(scaling(stale_after_s=2))
    world.tick(5)
    world.silent = True
    world.tick(120, every_s=10)
    _look(world)
    row.state = state
    row.save()
    world.silent = state == "retired"
    world.tick(120, every_s=10)
    _look(world)
    incident = Incident.objects.get(component=f"policy:metrics:{POOL}")
    said = {
        "retired": "It is no longer part of the fleet, was disabled, or no policy in force is about it",
        "active": "Pool chat-pool is no longer held without metrics",
    }
    texts = [entry.text for entry in incident.entries.order_by("pk")]
    assert any(said[state] in text for text in texts), texts
    assert (incident.resolved_at is not None) == (state == "retired")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("by_hand", [False, True])
def test_what_a_cluster_refused_is_not_over_while_its_pool_is_held(by_hand: bool) -> None:
    """It was said to be over after a quarter of an hour, in which nothing had been tried again."""
    world = world_of(2)
    revision(scaling(stale_after_s=2))
    world.rps[POOL] = 45
    world.cluster.fails_to_scale = ForbiddenError("weir may not patch deployments/scale")
    world.heard_for_long()
    world.tick(20)
    world.silent = True
    if by_hand:
        world.cluster.by_hand(POOL, 5)
    world.tick(20 * 60, every_s=20)
    fault = models.Observation.objects.get(component=f"policy:action:{POOL}")
    assert fault.state == ("up" if by_hand else "down")
    assert "from 2 to 5" in fault.error or by_hand
    world.silent, world.rps[POOL] = False, 1
    world.heard_for_long()
    world.tick(20)
    fault.refresh_from_db()
    assert fault.state == "up", "fewer are enough by now"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("ends", ["retired", "replaced"])
def test_a_text_that_cannot_be_followed_is_not_said_to_be_followed_again(ends: str) -> None:
    world = world_of(2)
    row = revision(scaling(gone=1))
    assert {fault.kind for fault in world.tick(5).faults} == {"unreadable"}
    row.state = "retired"
    row.save()
    if ends == "replaced":
        revision(scaling(), number=2)
    world.tick(5)
    assert not models.Observation.objects.filter(component="policy:unreadable:chat@1").exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("text", "state"), [("no: policy", "up"), (scaling(gone=1), "down"), ("", None)])
def test_a_fault_is_judged_by_no_text_that_cannot_be_followed(text: str, state: str | None) -> None:
    """Nor is it said that no policy is about it, where one may be."""
    world = world_of(2)
    row = revision(scaling(stale_after_s=2))
    world.tick(5)
    world.silent = True
    world.tick(20)
    row.state = "retired"
    row.save()
    if text:
        revision(text, name="other")
    world.tick(5)
    row_of = models.Observation.objects.filter(component=f"policy:metrics:{POOL}").first()
    assert (row_of and row_of.state) == state


def _look(world: World) -> None:
    now = at(world.now_ms)
    look(now - timedelta(hours=1), now)
