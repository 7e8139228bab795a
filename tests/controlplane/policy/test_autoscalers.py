"""Beside an autoscaler that a policy cooperates with: its floor, its owner's floor, and what is said of both."""

import pytest

from controlplane.fleet.clusters.port import AutoscalerSeen, ClusterSeen
from controlplane.policy.models import Action, PolicyRevision
from tests.support.policy.cluster import ClusterInMemory
from tests.support.policy.world import CLUSTER, POOL, World, fleet, revision, scaling

pytestmark = pytest.mark.django_db(transaction=True)


class _Unread(ClusterInMemory):
    """Nothing has been read of it yet while `unread`, as after the start of a process."""

    unread = False

    def seen(self) -> ClusterSeen:
        return ClusterSeen(self.name, problem="It has not answered yet.") if self.unread else super().seen()


@pytest.fixture
def world() -> World:
    fleet()
    world = World(_Unread(CLUSTER))
    workload = world.cluster.add(POOL, 2)
    workload.owner, workload.autoscaler = "hpa:cpu", AutoscalerSeen("cpu", 2, 10, owner_min_replicas=2)
    return world


def _floors(world: World) -> list[object]:
    return [count for call, _, count in world.cluster.writes if call == "floor"]


def test_the_floor_follows_the_load_and_each_change_has_its_outcome(world: World) -> None:
    quick = "{stabilisation_s: 1, cooldown_s: 0, max_step: 10}"
    revision(scaling(max=8, other_owner="cooperate", scale_down=quick))
    world.rps[POOL] = 45
    world.heard_for_long()
    world.tick(4)
    raised = Action.objects.get()
    assert (raised.kind, raised.step, raised.outcome) == (
        "floor",
        "done",
        f"The autoscaler keeps at least {raised.after} replicas.",
    )
    world.rps[POOL] = 1
    world.tick(60, every_s=5)
    lowered = Action.objects.order_by("-pk")[0]
    assert (lowered.after, lowered.step) == (2, "done"), "its owner's floor"
    assert world.cluster.counts(POOL) == []


def test_nothing_is_done_where_the_owners_floor_is_more_than_the_load_needs(world: World) -> None:
    revision(scaling(other_owner="cooperate", scale_down={"stabilisation_s": 0}))
    ticked = world.tick(12)
    assert ticked.decision is not None
    assert (ticked.decision.targets[POOL].action, _floors(world)) == ("hold", [])
    assert "the owner of the HPA cpu keeps at least 2 replicas" in ticked.decision.targets[POOL].reason


@pytest.mark.parametrize("step", ["retired", "retired meanwhile"])
def test_a_policy_that_is_retired_leaves_the_floor_to_its_owner(world: World, step: str) -> None:
    row = revision(scaling(max=8, other_owner="cooperate"))
    world.rps[POOL] = 45
    world.tick(4)
    if step != "retired":  # and another process leads by then
        world.generation += 1
        world.new_engine()
    row.state = "retired"
    row.save()
    world.tick(3)
    scaler = world.cluster.workloads[POOL].autoscaler
    assert scaler is not None
    last = Action.objects.order_by("-pk")[0]
    assert (scaler.min_replicas, last.step, last.outcome) == (2, "done", "The autoscaler keeps at least 2 replicas.")
    writes = len(world.cluster.writes)
    world.tick(3)
    assert len(world.cluster.writes) == writes


def test_a_policy_that_is_retired_while_no_process_runs_leaves_the_floor_to_its_owner(world: World) -> None:
    """The first tick of a process sees nothing of a cluster, and forgot the pool."""
    row = revision(scaling(max=8, other_owner="cooperate"))
    world.rps[POOL] = 45
    world.heard_for_long()
    world.tick(4)
    row.state = "retired"
    row.save()
    world.generation += 1
    world.new_engine()
    assert isinstance(world.cluster, _Unread)
    world.cluster.unread = True
    world.tick(2)
    world.cluster.unread = False
    world.tick(6)
    assert _floors(world) == [6, 2]


def test_a_floor_stays_where_a_newer_release_refuses_the_policys_text(world: World) -> None:
    row = revision(scaling(max=8, other_owner="cooperate"))
    world.rps[POOL] = 45
    world.heard_for_long()
    world.tick(4)
    PolicyRevision.objects.filter(pk=row.pk).update(text=row.text.replace("spec:\n", "spec:\n  gone: 1\n"))
    world.generation += 1
    world.new_engine()
    world.tick(6)
    assert _floors(world) == [6]


class _SetBack(ClusterInMemory):
    """Somebody applies the HPA's file again, right after each change of its floor."""

    def raise_floor(self, pool: str, min_replicas: int, *, generation: int) -> None:
        had = self.workloads[pool].autoscaler
        super().raise_floor(pool, min_replicas, generation=generation)
        self.workloads[pool].autoscaler = had


def test_a_floor_that_its_owner_set_back_meanwhile_is_said_so(world: World) -> None:
    revision(scaling(max=8, other_owner="cooperate"))
    world.cluster.__class__ = _SetBack
    world.rps[POOL] = 45
    world.tick(12)
    first = Action.objects.order_by("pk")[0]
    assert (first.step, first.outcome) == ("done", "The floor is 2 by now: it was changed again.")
