"""Ticks against a strict cluster: what is seen, decided, recorded and done."""

from datetime import timedelta

import pytest

from controlplane.fleet.models import Cluster, Observation, Pool, Replica
from controlplane.incidents.models import ChangeRecord
from controlplane.policy.act.journal import at
from controlplane.policy.core.overlay import ladder
from controlplane.policy.core.record import decode
from controlplane.policy.models import Action, DecisionChange, DecisionRecord, Override, Pause, PolicyRevision
from controlplane.policy.queries import newest_decision
from controlplane.policy.write_records import MEMORY_S
from tests.support.policy.world import (
    GATEWAY,
    POOL,
    World,
    fleet,
    revision,
    scaling,
    snapshot_in_force,
    world_of,
)

pytestmark = pytest.mark.django_db(transaction=True)


MINUTE = timedelta(minutes=1)
LADDER = """\
    apiVersion: weir/v1
    kind: Degradation
    metadata:
      name: ladder
    spec:
      model: chat
      tiers: [premium]
      steps:
        - name: shorter
          enter: waiting > 20.0
          exit: waiting < 5.0
          max_output_tokens: 64
          min_stay_s: 3
"""


@pytest.fixture
def world() -> World:
    return world_of(1)


def test_without_a_policy_nothing_is_done_and_replicas_are_discovered(world: World) -> None:
    world.rps[POOL] = 100
    world.tick(10)
    assert world.cluster.writes == []
    assert not DecisionRecord.objects.exists()
    assert [row.name for row in Replica.objects.all()] == ["chat-pool-1"]


def test_pages_show_what_a_tick_saw_just_now_also_where_it_decided_nothing_new(world: World) -> None:
    revision(scaling())
    world.tick(20)
    decided, world.rps[POOL] = DecisionRecord.objects.count(), 3
    world.tick(10)
    assert DecisionRecord.objects.count() == decided, "so little more is no news"
    newest = newest_decision()
    assert newest is not None and newest.record is not None
    assert newest.row == DecisionRecord.objects.latest("pk") and newest.row.at < newest.seen_at
    assert newest.record.observation.now_ms > world.now_ms - MEMORY_S * 1000
    assert (newest.record.observation.pools[POOL].arrived_rps or 0) > 1.2


def test_a_policy_whose_decision_fails_stops_no_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    revision(scaling())
    revision(LADDER, name="ladder", kind="Degradation")
    world.tick(5)
    world.rps[POOL] = 30
    with monkeypatch.context() as broken:
        broken.setattr(ladder, "climb", lambda *_, **__: 1 / 0)
        ticked = world.tick(30)
    assert world.cluster.counts(POOL)[-1] == 4
    (fault,) = ticked.faults
    assert (fault.kind, fault.subject, fault.severity) == ("unreadable", "ladder@1", "page")
    assert fault.text == "ladder@1 cannot be followed: ZeroDivisionError: division by zero"
    row = DecisionRecord.objects.latest("pk")
    record = decode(row.record)
    assert [policy.name for policy in record.policies] == ["chat"]
    assert world.tick(1).faults == ()


def test_a_protection_whose_decision_fails_goes_on_as_it_is(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    revision(LADDER, name="ladder", kind="Degradation")
    world.waiting = 30
    world.tick(2)
    assert [step.name for step in snapshot_in_force().overlay.degradation] == ["shorter"]
    world.waiting = 0
    with monkeypatch.context() as broken:
        broken.setattr(ladder, "holds", lambda *_, **__: 1 / 0)
        ticked = world.tick(70, every_s=5)
        assert [step.name for step in snapshot_in_force().overlay.degradation] == ["shorter"]
        assert [fault.text for fault in ticked.faults] == [
            "ladder@1 cannot be followed: ZeroDivisionError: division by zero"
        ]
        record = decode(DecisionRecord.objects.latest("pk").record)
        assert [pause.target for pause in record.observation.pauses] == ["ladder"]
    world.tick(5)
    assert snapshot_in_force().overlay.degradation == ()


def test_more_traffic_scales_up_with_a_record(world: World) -> None:
    revision(scaling())
    world.tick(5)
    world.rps[POOL] = 30
    world.tick(30)
    counts = world.cluster.counts(POOL)
    assert counts[-1] == 4
    assert counts == sorted(set(counts)), "no count is asked for twice"
    actions = Action.objects.order_by("pk")
    assert [(action.kind, action.after, action.step) for action in actions] == [
        ("up", count, "done") for count in counts
    ]
    assert "4 replicas are ready" in actions[len(counts) - 1].outcome
    assert {row.name for row in Replica.objects.all()} == {f"chat-pool-{number}" for number in (1, 2, 3, 4)}
    change = actions[0].decision.changes.get(kind="scale")
    assert (change.pool, change.before, change.after, change.policy, change.revision) == (POOL, 1, counts[0], "chat", 1)
    assert all(row.took_s > 0 for row in DecisionRecord.objects.all())


def test_a_replica_that_gateways_warm_up_counts_as_starting(world: World) -> None:
    revision(scaling())
    world.cluster.workloads.clear()
    world.cluster.add(POOL, 2)
    world.warming = {"chat-pool-2"}
    world.tick(2)
    facts = decode(DecisionRecord.objects.latest("pk").record).observation.pools[POOL]
    assert (facts.ready, facts.starting) == (1, 1)


def test_a_count_that_a_hand_set_before_weir_came_is_no_second_owner(world: World) -> None:
    world.cluster.workloads[POOL].set_by = "kubectl-create"
    revision(scaling())
    world.tick(5)
    world.rps[POOL] = 45
    world.tick(10)
    assert world.cluster.counts(POOL)[-1] == 5
    world.cluster.by_hand(POOL, 3)
    ticked = world.tick(3)
    assert world.cluster.workloads[POOL].count == 3, "but one that sets it afterwards is"
    assert "owner" in {fault.kind for fault in ticked.faults}


def test_a_shadow_decides_and_records_and_does_nothing(world: World) -> None:
    revision(scaling(max=2))
    revision(scaling(max=5), number=2, state="shadow")
    world.tick(5)
    world.rps[POOL] = 45
    world.tick(10)
    assert world.cluster.counts(POOL) == [2]
    assert set(Action.objects.values_list("after", flat=True)) == {2}
    shadows = DecisionChange.objects.filter(shadow=True, kind="scale")
    assert {(change.policy, change.revision, change.after) for change in shadows} >= {("chat", 2, 5.0)}
    assert not DecisionChange.objects.filter(shadow=False, revision=2).exists()


def test_a_pause_holds_and_an_end_of_it_goes_on(world: World) -> None:
    revision(scaling())
    world.tick(5)
    starts = at(world.now_ms)
    Pause.objects.create(
        author="ada", reason="test", scope="pool", target=POOL, starts_at=starts, ends_at=starts + MINUTE
    )
    world.rps[POOL] = 45
    world.tick(30, every_s=5)
    assert world.cluster.counts(POOL) == []
    assert DecisionChange.objects.filter(kind="hold", reason__startswith="paused by ada").exists()
    world.tick(40, every_s=5)
    assert world.cluster.counts(POOL)[-1] == 5


def test_an_override_sets_the_count_until_its_end(world: World) -> None:
    revision(scaling(scale_down="{stabilisation_s: 5, cooldown_s: 0, max_step: 5}"))
    world.tick(5)
    starts = at(world.now_ms)
    Override.objects.create(
        author="ada", reason="launch", pool=POOL, replicas=4, starts_at=starts, ends_at=starts + MINUTE
    )
    world.tick(10)
    assert world.cluster.counts(POOL) == [4]
    world.tick(80, every_s=5)
    assert world.cluster.workloads[POOL].count == 1


def test_a_ladder_climbs_over_gateways_and_comes_down_to_zero(world: World) -> None:
    revision(LADDER, name="ladder", kind="Degradation")
    world.tick(5)
    world.waiting = 50
    world.tick(10)
    overlay = snapshot_in_force().overlay
    assert [(each.model, each.tier, each.name) for each in overlay.degradation] == [("chat", "premium", "shorter")]
    assert overlay.expires_ms > world.now_ms
    world.waiting = 0
    world.tick(20)
    assert snapshot_in_force().overlay.degradation == ()
    steps = DecisionChange.objects.filter(kind="ladder").order_by("pk")
    assert [(change.before, change.after) for change in steps] == [(0, 1), (1, 0)]


def test_a_new_leader_goes_on_where_the_last_was(world: World) -> None:
    revision(LADDER, name="ladder", kind="Degradation")
    world.tick(3)
    world.waiting = 50
    world.tick(10)
    world.generation += 1
    world.new_engine()
    world.tick(1)
    assert [each.name for each in snapshot_in_force().overlay.degradation] == ["shorter"]


FAILOVER = """
    apiVersion: weir/v1
    kind: Routing
    metadata: {name: routes}
    spec:
      model: chat
      failover: [{name: away, pools: [chat-pool], to: {far: 1}, when: waiting > 20.0, min_stay_s: 1}]
"""


def test_what_a_policy_does_stays_where_a_newer_release_refuses_its_text() -> None:
    """It ended, while the page said that the policy cannot be followed."""
    fleet({POOL: "chat", "far": "chat"})
    world = World(rps={POOL: 1.0, "far": 1.0})
    for pool in world.rps:
        world.cluster.add(pool, 1)
    rows = [
        revision(LADDER, name="ladder", kind="Degradation"),
        revision(FAILOVER, name="routes", kind="Routing"),
        revision(scaling()),
    ]
    world.waiting = 30
    world.tick(2)
    assert [each.summary for each in ChangeRecord.objects.all()] == ["failover away: off → active: waiting > 20.0"]
    world.waiting = 0
    refused = {"  min_stay_s: 1}": "  min_stay_s: 1, gone: 1}", "spec:\n": "spec:\n  gone: 1\n"}
    for row in rows:
        text = row.text
        for before, after in refused.items():
            text = text.replace(before, after)
        PolicyRevision.objects.filter(pk=row.pk).update(text=text)
    world.generation += 1
    world.new_engine()
    ticked = world.tick(400, every_s=20)  # longer than an overlay lasts
    overlay = snapshot_in_force().overlay
    assert ([step.name for step in overlay.degradation], overlay.instead) == (["shorter"], {POOL: ("far",)})
    assert [route.pool for route in overlay.routes["chat"]] == ["far"]
    assert overlay.expires_ms > world.now_ms
    assert {(fault.kind, fault.subject) for fault in ticked.faults} == {
        ("unreadable", "chat@1"), ("unreadable", "ladder@1"), ("unreadable", "routes@1"),
    }  # fmt: skip
    assert world.cluster.counts(POOL) == []
    PolicyRevision.objects.filter(name="routes").update(state="retired")
    world.tick(2)
    overlay = snapshot_in_force().overlay
    assert ([step.name for step in overlay.degradation], overlay.instead) == (["shorter"], {})
    for row in rows:
        PolicyRevision.objects.filter(pk=row.pk).update(text=row.text)
    world.new_engine()
    world.tick(20)
    assert snapshot_in_force().overlay.degradation == ()


def test_the_first_request_of_an_empty_pool_starts_a_replica_and_clients_are_told_when(world: World) -> None:
    revision(scaling(min=0))
    world.cluster.by_hand(POOL, 0)
    world.rps[POOL] = 0
    world.tick(5)
    assert world.cluster.counts(POOL) == []
    world.rps[POOL], world.warming = 1, {f"{POOL}-2"}
    world.tick(5)
    assert world.cluster.counts(POOL) == [1]
    expected_ms = snapshot_in_force().overlay.awaited[POOL]
    assert world.now_ms < expected_ms <= world.now_ms + 30_000
    world.warming = set()
    world.tick(2)
    assert snapshot_in_force().overlay.awaited == {}


def test_a_disabled_pool_is_left_alone_which_pages_nobody(world: World) -> None:
    revision(scaling())
    revision(LADDER, name="ladder", kind="Degradation")
    world.tick(5)
    world.waiting, world.rps[POOL] = 50, 20
    world.tick(10)
    assert snapshot_in_force().overlay.degradation
    writes = list(world.cluster.writes)
    Pool.objects.update(enabled=False)
    del world.rps[POOL]  # gateways do not know it any more
    ticked = world.tick(60, every_s=5)
    assert ticked.faults == ()
    assert world.cluster.writes == writes
    assert snapshot_in_force().overlay.degradation == (), "nothing is degraded where nothing is served"
    held = DecisionChange.objects.filter(kind="hold").latest("pk")
    assert held.reason == f"{POOL} is disabled in the admin. Nothing is done about its replicas until it is enabled."
    Pool.objects.update(enabled=True)
    world.rps[POOL] = 45
    world.tick(20)
    assert world.cluster.counts(POOL)[-1] == 5


def test_a_shadow_under_another_name_is_judged_in_place_of_what_is_in_force(world: World) -> None:
    """It was only said not to be followed, because the other one is about the pool too, and its page said that it would do the same."""
    revision(scaling(max=2))
    revision(scaling(max=5).replace("name: chat", "name: other"), name="other", state="shadow")
    world.rps[POOL] = 35
    world.heard_for_long()
    world.tick(5)
    scales = DecisionChange.objects.filter(kind="scale")
    assert {(each.policy, each.shadow, each.after) for each in scales} >= {("chat", False, 2.0), ("other", True, 5.0)}
    assert not scales.filter(policy="chat", shadow=True).exists()


ROUTES = """
    apiVersion: weir/v1
    kind: Routing
    metadata: {name: routes}
    spec:
      model: chat
      rules: [{name: all, routes: {chat-pool: 100}}]
"""


@pytest.mark.parametrize("state", ["active", "shadow"])
def test_a_policy_with_routes_is_judged_beside_the_others(world: World, state: str) -> None:
    """Its document has mappings, so it cannot be hashed: a tick that hashed policies stopped all of them."""
    revision(ROUTES, name="routes", kind="Routing", state=state)
    revision(scaling(min=2))
    ticked = world.tick(3)
    assert world.cluster.counts(POOL) == [2]
    policies = ticked.policies.active if state == "active" else ticked.policies.shadow
    assert ("routes" in [each.name for each in policies], ticked.faults) == (True, ())


def test_a_disabled_cluster_is_left_alone_which_pages_nobody(world: World) -> None:
    revision(scaling(min=2))
    world.tick(5)
    writes = list(world.cluster.writes)
    Cluster.objects.update(enabled=False)
    ticked = world.tick(20)
    assert (ticked.faults, world.cluster.writes) == ((), writes)
    held = DecisionChange.objects.filter(kind="hold").latest("pk")
    assert held.reason.startswith(
        "Cluster east of chat-pool is disabled in the admin. Nothing is done about its replicas"
    )
    Cluster.objects.update(enabled=True)
    world.rps[POOL] = 45
    world.tick(20)
    assert world.cluster.counts(POOL)[-1] == 5


def test_a_burst_that_came_and_went_while_a_tick_took_its_time_counts(world: World) -> None:
    revision(scaling())
    world.tick(5)
    for rps in (90.0, 3.0):  # rounds that no tick sees by themselves
        world.rps[POOL] = rps
        world.now_ms += 1_000
        world.listen()
    ticked = world.tick(1)
    assert ticked.observation is not None
    assert ticked.observation.pools[POOL].arrived_rps == 32.0
    ticked = world.tick(1)
    assert ticked.observation is not None and ticked.observation.pools[POOL].arrived_rps == 3.0


@pytest.mark.parametrize("then", ["silent", "killed"])
def test_a_gateway_that_did_not_obey_is_not_said_to_obey_before_it_is_known(world: World, then: str) -> None:
    revision(scaling())
    world.tick(3)
    world.obeys = False
    world.tick(125, every_s=5)
    row = Observation.objects.get(component=f"policy:gateway:{GATEWAY}")
    assert row.state == "down", row.error
    if then == "silent":
        world.silent = True
    else:
        world.generation += 1
        world.new_engine()
    world.tick(30, every_s=5)
    row.refresh_from_db()
    assert row.state == "down"
    world.silent, world.obeys = False, True
    world.tick(5)
    row.refresh_from_db()
    assert row.state == "up"
