"""The policy snapshot reaches the clusters whose gateways may mount it."""

import pytest

from controlplane.fleet.clusters.errors import ForbiddenError, UnreachableError
from controlplane.fleet.models import Cluster, Observation, Pool, PublishedSnapshot
from controlplane.fleet.publish import publish
from tests.support.policy.cluster import ClusterInMemory
from tests.support.policy.world import CLUSTER, World, world_of

pytestmark = pytest.mark.django_db(transaction=True)


def in_force() -> bytes:
    return PublishedSnapshot.objects.get().text.encode()


@pytest.fixture
def world() -> World:
    return world_of(1)


def test_each_new_snapshot_is_stored_once_also_without_a_policy(world: World) -> None:
    world.tick(3)
    assert world.cluster.published[-1] == in_force(), "with the endpoints that were discovered"
    count = len(world.cluster.published)
    world.tick(3)
    assert len(world.cluster.published) == count
    pool = Pool.objects.get()
    pool.max_queue = 7
    pool.save()
    world.tick(2)
    assert world.cluster.published[count:] == [in_force()]


def test_a_cluster_without_pools_or_gateways_gets_none() -> None:
    Cluster.objects.create(name=CLUSTER, kind="kubernetes")
    world = World(ClusterInMemory(CLUSTER))
    publish()
    world.tick(2)
    assert world.cluster.published == []
    world.cluster.gateways = ("http://gateway",)
    world.tick(1)
    assert world.cluster.published == [in_force()]


def test_a_new_leader_stores_it_too(world: World) -> None:
    world.tick(3)
    count = len(world.cluster.published)
    world.generation += 1
    world.new_engine()
    world.tick(2)
    assert world.cluster.published[count:] == [in_force()]
    assert world.cluster.generation == 2


def test_what_a_cluster_cannot_take_now_is_tried_again(world: World) -> None:
    world.cluster.failing = UnreachableError("no answer", retry_after_s=3)
    ticked = world.tick(2)
    assert ticked.faults == ()
    world.cluster.failing = None
    world.tick(1)
    assert world.cluster.published == [], "it waits as long as the cluster says"
    world.tick(4)
    assert world.cluster.published == [in_force()]


@pytest.mark.parametrize("killed", [False, True])
def test_a_refusal_is_not_over_while_the_cluster_does_not_answer(world: World, killed: bool) -> None:
    world.cluster.failing = ForbiddenError("weir may not patch configmaps")
    world.tick(2)
    world.cluster.failing = UnreachableError("no answer")
    if killed:
        world.generation += 1
        world.new_engine()
    world.tick(130, every_s=5)
    assert Observation.objects.get(component=f"policy:snapshot:{CLUSTER}").state == "down"


def test_a_refusal_is_a_fault_until_it_is_taken(world: World) -> None:
    world.cluster.failing = ForbiddenError("weir may not patch configmaps: apply deploy/kubernetes/base/rbac.yaml.")
    world.tick(2)
    row = Observation.objects.get(component=f"policy:snapshot:{CLUSTER}")
    assert (row.state, row.figures) == ("down", {"page": 0.0})
    assert "apply deploy/kubernetes/base/rbac.yaml. Gateways that mount it there keep" in row.error
    world.cluster.failing = None
    world.tick(65, every_s=5)
    assert world.cluster.published == [in_force()]
    row.refresh_from_db()
    assert row.state == "up"
