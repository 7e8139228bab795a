"""Actions: drains, what becomes of them, and what happens where somebody else has changed the count."""

from collections.abc import Callable

import pytest
from django.db.models import F
from msgspec import structs

from controlplane.fleet.clusters.errors import (
    ClusterError,
    ConflictError,
    ForbiddenError,
    ThrottledError,
    UnreachableError,
)
from controlplane.fleet.clusters.port import ClusterSeen
from controlplane.fleet.models import Cluster, Pool, Replica
from controlplane.policy.models import Action, DecisionRecord, PolicyRevision
from tests.support.policy.cluster import ClusterInMemory
from tests.support.policy.world import CLUSTER, POOL, World, fleet, revision, scaling, world_of

pytestmark = pytest.mark.django_db(transaction=True)

REPLICAS = ("chat-pool-1", "chat-pool-2", "chat-pool-3")
QUICK_DOWN = {"scale_down": "{stabilisation_s: 3, cooldown_s: 0, max_step: 2}"}


@pytest.fixture
def world() -> World:
    return world_of(3)


def _scales(world: World) -> list[int]:
    return world.cluster.counts(POOL)


def test_a_replica_goes_once_every_gateway_obeys_and_it_is_empty(world: World) -> None:
    revision(scaling(min=2, **QUICK_DOWN))
    world.in_flight = {"chat-pool-1": 2, "chat-pool-2": 1, "chat-pool-3": 1}
    world.obeys = False
    world.tick(8)
    action = Action.objects.get()
    assert (action.step, len(action.replicas)) == ("draining", 1)
    leaving = action.replicas[0]
    assert Replica.objects.get(name=leaving).draining
    assert _scales(world) == []
    world.obeys = True
    world.tick(1)
    assert _scales(world) == [], "it has requests"
    world.in_flight[leaving] = 0
    world.tick(2)
    assert _scales(world) == [2]
    assert world.cluster.removed == [leaving]
    assert ("prefer", POOL, (leaving,)) in world.cluster.writes
    world.tick(1)
    assert not Replica.objects.filter(name=leaving).exists()
    action.refresh_from_db()
    assert (action.step, action.outcome[:19]) == ("done", "2 replicas are left")


def test_a_drain_ends_where_traffic_comes_back(world: World) -> None:
    revision(scaling(min=1, **QUICK_DOWN))
    world.in_flight = dict.fromkeys(REPLICAS, 1)
    world.tick(6)
    assert Replica.objects.filter(draining=True).exists()
    assert Action.objects.get().endpoints_version
    world.rps[POOL] = 24
    ticked = world.tick(6)
    assert ticked.faults == (), "it is no longer wanted: no ticket"
    assert not Replica.objects.filter(draining=True).exists()
    assert Action.objects.order_by("pk")[0].step == "abandoned"
    assert all(count >= 3 for count in _scales(world))


def test_a_drain_waits_while_metrics_are_missing(world: World) -> None:
    revision(scaling(min=2, stale_after_s=2, **QUICK_DOWN))
    world.in_flight = dict.fromkeys(REPLICAS, 1)
    world.tick(6)
    world.silent, world.in_flight = True, {}
    world.tick(20)
    assert _scales(world) == []
    assert Action.objects.get().ended_at is None
    world.silent = False
    world.tick(6)
    assert _scales(world) == [2]


def test_a_drain_of_a_policy_that_cannot_be_followed_waits_until_its_deadline(world: World) -> None:
    """It was given up at once, because “no active policy scales the pool any more”."""
    row = revision(scaling(min=2, drain_deadline_s=60, **QUICK_DOWN))
    world.in_flight = dict.fromkeys(REPLICAS, 1)
    world.tick(6)
    PolicyRevision.objects.filter(pk=row.pk).update(text=row.text.replace("spec:\n", "spec:\n  gone: 1\n"))
    world.generation += 1
    world.new_engine()
    world.tick(20)
    assert (Action.objects.get().step, Replica.objects.filter(draining=True).count()) == ("draining", 1)
    world.tick(45, every_s=5)
    assert (Action.objects.get().step, Replica.objects.filter(draining=True).count()) == ("abandoned", 0)
    assert Action.objects.get().outcome.endswith("get requests again: its policy cannot be followed.")


@pytest.mark.parametrize("refused", [None, UnreachableError("no answer")])
def test_replicas_of_a_drain_that_is_held_past_its_deadline_get_requests_again(
    world: World, refused: ClusterError | None
) -> None:
    """Where a count may have been asked for, once the cluster has shown that it was not set."""
    revision(scaling(min=2, stale_after_s=2, drain_deadline_s=60, **QUICK_DOWN))
    world.in_flight = {} if refused else dict.fromkeys(REPLICAS, 1)
    if refused:
        world.tick(2)
        world.cluster.fails_to_scale = refused
    world.tick(6)
    assert Action.objects.get().step == ("preferred" if refused else "draining")
    world.silent = True
    world.tick(50, every_s=5)
    assert Replica.objects.filter(draining=True).exists()
    world.cluster.age_ms = 70_000 if refused else 0
    world.tick(15, every_s=5)
    if refused:
        assert Replica.objects.filter(draining=True).exists(), "the state is older than what was asked"
        world.cluster.age_ms = 0
        world.tick(10, every_s=5)
    assert not Replica.objects.filter(draining=True).exists()
    outcome = Action.objects.get().outcome
    assert outcome.startswith(
        "It was held until its deadline, and its replicas get requests again: The traffic of chat-pool"
    )


def test_a_conflict_is_looked_at_again(world: World) -> None:
    revision(scaling())
    world.rps[POOL] = 45
    world.heard_for_long()
    world.cluster.failing = ConflictError("changed")
    world.tick(5)
    action = Action.objects.get()
    assert (action.step, action.ended_at) == ("planned", None)
    world.cluster.failing = None
    world.tick(2)
    assert _scales(world) == [5]
    assert Action.objects.count() == 1


class _Late(ClusterInMemory):
    """Its state is as old as LATE_S, and says so: each change is seen that much later."""

    LATE_S = 12

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.states: list[ClusterSeen] = []

    def seen(self) -> ClusterSeen:
        self.states.append(super().seen())
        oldest_ms = self.now_ms - self.LATE_S * 1_000
        state = next((it for it in reversed(self.states) if (it.seen_ms or 0) <= oldest_ms), self.states[0])
        return structs.replace(state, age_ms=self.now_ms - (state.seen_ms or 0))


def test_what_a_state_from_before_it_was_accepted_shows_says_nothing_of_an_action() -> None:
    fleet()
    world = World(_Late(CLUSTER))
    world.cluster.add(POOL, 3)
    revision(scaling())
    world.rps[POOL] = 45
    world.heard_for_long()
    world.tick(2 * _Late.LATE_S + 6)
    assert _scales(world) == [5]
    action = Action.objects.get()
    assert action.outcome.startswith("5 replicas are ready, "), action.outcome


def test_a_throttled_call_waits_as_long_as_the_cluster_says(world: World) -> None:
    revision(scaling())
    world.rps[POOL] = 45
    world.tick(3)
    world.cluster.failing = ThrottledError("too many requests", retry_after_s=20)
    world.tick(2)
    world.cluster.failing = None
    before = len(world.cluster.writes)
    world.tick(16)
    assert len(world.cluster.writes) == before
    world.tick(6)
    assert world.cluster.workloads[POOL].count == 5


def test_a_refused_call_is_a_fault(world: World) -> None:
    revision(scaling())
    world.heard_for_long()
    world.tick(3)
    world.rps[POOL] = 25
    world.tick(4)
    world.rps[POOL] = 45
    world.cluster.failing = ForbiddenError(
        "weir may not patch deployments/scale: apply deploy/kubernetes/base/rbac.yaml"
    )
    ticked = world.tick(8)
    assert {action.step for action in Action.objects.filter(after=5)} == {"failed"}
    fault = next(fault for fault in ticked.faults if fault.kind == "action")
    assert "apply deploy/kubernetes/base/rbac.yaml" in fault.text


def test_what_a_cluster_refuses_is_asked_for_once_a_minute_and_each_time_has_a_record(world: World) -> None:
    """It was asked for, recorded and shown as a change each second."""
    revision(scaling())
    world.cluster.fails_to_scale = ForbiddenError("weir may not patch deployments/scale")
    world.rps[POOL] = 45
    world.heard_for_long()
    world.tick(175)
    assert list(Action.objects.values_list("after", "step")) == [(5, "failed")] * 3
    assert DecisionRecord.objects.count() <= 6
    world.cluster.fails_to_scale = None
    world.tick(65)
    assert _scales(world) == [5]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("fails_to_claim", ForbiddenError("leases is forbidden.")),
        ("fails_to_scale", UnreachableError("a webhook failed.")),
    ],
)
def test_a_call_that_fails_on_and_on_is_a_fault_until_it_is_taken(world: World, call: str, error: ClusterError) -> None:
    """It was tried for ever, and nobody was told."""
    revision(scaling())
    setattr(world.cluster, call, error)
    world.rps[POOL] = 45
    world.heard_for_long()
    assert world.tick(20).faults == ()
    for _ in range(30):
        [fault] = world.tick(1 if _ else 15).faults
        assert (fault.kind, fault.severity) == ("action", "page")
        assert fault.text.startswith(f"chat-pool is not changed from 3 to 5 yet: {str(error)[:-1]}; tried again in ")
    setattr(world.cluster, call, None)
    assert world.tick(20).faults == ()
    assert _scales(world) == [5]


def test_a_workload_that_its_cluster_does_not_let_a_leader_mark_is_not_tried_all_the_time(world: World) -> None:
    revision(scaling(min=1))
    world.cluster.workloads[POOL].taken_on = False
    world.tick(600)
    assert 10 <= world.cluster.claims <= 15
    world.cluster.workloads[POOL].taken_on = True
    world.tick(120)
    before = world.cluster.claims
    world.cluster.workloads[POOL].taken_on = False  # it was created anew
    world.tick(2)
    assert world.cluster.claims == before + 1


def test_a_count_that_a_hand_changed_meanwhile_is_left_alone(world: World) -> None:
    revision(scaling(min=2, **QUICK_DOWN))
    world.in_flight = dict.fromkeys(REPLICAS, 1)
    world.tick(6)
    world.cluster.by_hand(POOL, 5)
    world.in_flight = {}
    ticked = world.tick(3)
    assert _scales(world) == []
    assert Action.objects.order_by("pk")[0].step in ("abandoned", "draining")
    assert "owner" in {fault.kind for fault in ticked.faults}


def _unready(world: World, name: str) -> None:
    workload = world.cluster.workloads[POOL]
    workload.replicas = [
        structs.replace(replica, ready=False) if replica.name == name else replica for replica in workload.replicas
    ]


def test_a_replica_that_fails_its_probe_goes_first_and_not_with_requests_in_it(world: World) -> None:
    """Kubernetes removes what is not ready first, whatever it costs; a busy server may well fail its probe."""
    revision(scaling(min=2, **QUICK_DOWN))
    world.in_flight = dict.fromkeys(REPLICAS, 1)
    world.listed = list(REPLICAS)
    _unready(world, "chat-pool-2")
    world.tick(8)
    action = Action.objects.get()
    assert (action.step, action.replicas) == ("draining", ["chat-pool-2"])
    assert _scales(world) == []
    world.in_flight["chat-pool-2"] = 0
    world.tick(2)
    assert (_scales(world), world.cluster.removed) == ([2], ["chat-pool-2"])


def test_a_drained_replica_stays_where_another_would_be_removed_in_its_place(world: World) -> None:
    revision(scaling(min=2, **QUICK_DOWN))
    world.in_flight = dict.fromkeys(REPLICAS, 1)
    world.listed = list(REPLICAS)
    world.tick(6)
    drained = Action.objects.get().replicas[0]
    failing = next(name for name in world.listed if name != drained)
    _unready(world, failing)
    world.in_flight[drained] = 0
    world.tick(1)
    assert _scales(world) == []
    first = Action.objects.order_by("pk")[0]
    assert (first.step, f"{failing} is no longer ready" in first.outcome) == ("abandoned", True)
    assert world.cluster.removed == []


def test_a_rollout_ends_before_a_replica_is_chosen(world: World) -> None:
    revision(scaling(min=2, **QUICK_DOWN))
    workload = world.cluster.workloads[POOL]
    workload.replicas.append(structs.replace(workload.replicas[0], name="chat-pool-new", ready=False))
    world.tick(8)
    action = Action.objects.get()
    assert (action.step, "a rollout or a removal is under way" in action.outcome) == ("planned", True)
    workload.replicas.pop()
    world.tick(20)
    assert _scales(world) == [2]


LEFT: dict[str, tuple[str, Callable[[], object]]] = {
    "disabled": ("Cluster east was disabled", lambda: Cluster.objects.update(enabled=False)),
    "renamed": ("Cluster east is no longer in the fleet", lambda: Cluster.objects.update(name="west")),
    "pool": ("Pool chat-pool no longer runs in cluster east", lambda: Pool.objects.update(cluster=None)),
    "deleted": ("Pool chat-pool is no longer in the fleet", lambda: Pool.objects.all().delete()),
}


@pytest.mark.parametrize("what", LEFT)
def test_an_action_ends_where_its_cluster_or_its_pool_leaves_the_fleet(world: World, what: str) -> None:
    why, leave = LEFT[what]
    revision(scaling(min=2, **QUICK_DOWN))
    world.in_flight = dict.fromkeys(REPLICAS, 1)
    world.tick(6)
    assert Action.objects.get().step == "draining"
    leave()
    ticked = world.tick(1)
    action = Action.objects.get()
    assert (action.step, action.ended_at is not None) == ("abandoned", True)
    [gone] = action.replicas
    became = "" if what == "deleted" else f" {gone} gets requests again."
    assert action.outcome == f"{why}: it was given up before the cluster was known to have accepted it.{became}"
    assert "drain" not in {fault.kind for fault in ticked.faults}, "nobody has to do anything about it"
    assert not Replica.objects.filter(draining=True).exists()
    assert _scales(world) == []


def test_an_accepted_removal_ends_with_its_cluster_and_the_replica_stays_drained_until_the_cluster_is_back(
    world: World,
) -> None:
    revision(scaling(min=2, **QUICK_DOWN))
    world.in_flight = dict.fromkeys(REPLICAS, 1)
    world.tick(6)
    Action.objects.update(step="accepted", ended_at=F("step_at"))
    Cluster.objects.update(enabled=False)
    world.tick(1)
    action = Action.objects.get()
    ended = "Cluster east was disabled: the cluster had accepted it, and what became of it there is not known."
    stays = f" {action.replicas[0]} gets no requests until a cluster shows that it is still there."
    assert (action.step, action.outcome) == ("done", ended + stays)
    assert [row.name for row in Replica.objects.filter(draining=True)] == action.replicas
    PolicyRevision.objects.update(state="retired")
    Cluster.objects.update(enabled=True)
    world.tick(1)
    assert Replica.objects.filter(name=action.replicas[0], draining=False).exists()


def test_what_is_not_empty_in_time_stays_with_a_ticket_that_ends_where_its_cluster_is_disabled(world: World) -> None:
    revision(scaling(min=2, drain_deadline_s=5, **QUICK_DOWN))
    world.in_flight = dict.fromkeys(REPLICAS, 1)
    ticked = world.tick(13)
    assert [fault.kind for fault in ticked.faults] == ["drain"]
    assert "were not empty in time" in ticked.faults[0].text
    action = Action.objects.order_by("pk")[0]
    assert (_scales(world), action.step, "has 1 request" in action.outcome) == ([], "abandoned", True)
    assert Replica.objects.filter(draining=True).count() <= 1, "at most the next attempt's"
    Cluster.objects.update(enabled=False)
    assert "drain" not in [fault.kind for fault in world.tick(1).faults]


@pytest.mark.parametrize("rps", [45, 1])
def test_an_accepted_action_ends_where_its_workload_is_deleted(world: World, rps: float) -> None:
    """It was said to be carried out for ever."""
    revision(scaling(min=2, **QUICK_DOWN))
    world.rps[POOL] = rps
    world.cluster.__class__ = _Starting
    world.heard_for_long()
    world.tick(6)
    assert Action.objects.get().step == "accepted"
    del world.cluster.workloads[POOL]
    world.tick(6)
    action = Action.objects.get()
    assert (action.step, action.outcome[:44]) == ("done", "The workload of chat-pool is no longer there")
    assert Replica.objects.filter(draining=True).count() == len(action.replicas)


class _Starting(ClusterInMemory):
    """What it has accepted does not come about."""

    def _follow(self, pool: str) -> None:
        return
