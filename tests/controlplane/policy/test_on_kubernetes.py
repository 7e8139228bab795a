"""The policy engine over a real API server: one record and one outcome, whatever happens in between."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.fleet.clusters.errors import StaleLeaderError
from controlplane.fleet.clusters.kubernetes.cluster import SNAPSHOT, SNAPSHOT_KEY
from controlplane.fleet.models import Pool, PublishedSnapshot
from controlplane.policy.models import Action
from tests.support.cluster.killed import OF_ACTIONS, outcome_of
from tests.support.cluster.namespace import Namespace
from tests.support.cluster.objects import autoscaler, deployment
from tests.support.cluster.proxy import LOSE_ANSWER, Proxy, Request
from tests.support.cluster.rehearsed import QUICK, Counts, RealWorld, actions_done, rehearsal, scale_writes
from tests.support.policy.world import POOL, fleet, revision, scaling

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def world(hollow: Namespace, tmp_path: Path) -> Iterator[tuple[RealWorld, Proxy, Counts]]:
    fleet()
    hollow.create(deployment(POOL, 2))
    counts = Counts(hollow)
    with rehearsal(hollow, tmp_path, POOL) as (world, proxy):
        world.rps[POOL] = 12.0
        yield world, proxy, counts
    counts.close()


def writes_a_count(request: Request) -> bool:
    return request.method == "PATCH" and request.path.endswith("/scale")


def test_a_pool_grows_and_shrinks_with_its_traffic(world: tuple[RealWorld, Proxy, Counts], hollow: Namespace) -> None:
    real, proxy, counts = world
    revision(scaling(**QUICK))
    real.until(lambda: real.settled(POOL, 2))
    real.rps[POOL] = 60.0
    real.until(lambda: real.settled(POOL, 8))
    before = {pod.metadata.name for pod in hollow.pods(POOL)}
    real.rps[POOL] = 12.0
    real.until(lambda: counts.of(POOL)[-1] < 8 and real.settled(POOL, counts.of(POOL)[-1]))
    assert counts.of(POOL)[0] == 2
    drained = {name for action in Action.objects.filter(kind="down") for name in action.replicas}
    assert before - {pod.metadata.name for pod in hollow.pods(POOL)} == drained & before
    assert scale_writes(proxy) == actions_done(POOL)


def test_gateways_there_can_mount_each_snapshot(world: tuple[RealWorld, Proxy, Counts], hollow: Namespace) -> None:
    real, _, _ = world
    real.until(lambda: _mounted(hollow) == PublishedSnapshot.objects.get().text)
    before, pool = _mounted(hollow), Pool.objects.get()
    pool.max_queue = 7
    pool.save()
    real.until(lambda: _mounted(hollow) == PublishedSnapshot.objects.get().text)
    assert _mounted(hollow) != before


def _mounted(namespace: Namespace) -> str:
    made = namespace.core.list_namespaced_config_map(namespace.name, field_selector=f"metadata.name={SNAPSHOT}").items
    return (made[0].data or {}).get(SNAPSHOT_KEY, "") if made else ""


def test_a_process_that_is_killed_after_any_write_of_the_cluster_leaves_one_record_and_one_outcome(
    world: tuple[RealWorld, Proxy, Counts],
) -> None:
    real, proxy, counts = world
    revision(scaling(**QUICK))
    real.until(lambda: real.settled(POOL, 2))
    seen, wrong = set(), []
    for kill_at in range(1, 6):
        ends = [outcome_of(real, proxy, counts, POOL, target, kill_at, journal_too=False) for target in (3, 2)]
        seen |= {point for point, _ in ends}
        wrong += [text for _, texts in ends for text in texts]
    assert wrong == []
    assert seen == {"", *OF_ACTIONS}
    pool = real.real.seen().pools[POOL]
    with pytest.raises(StaleLeaderError):
        real.real.scale(POOL, 1, token=pool.token, generation=1)


def test_a_replica_ends_after_its_last_request_and_no_other_does(
    world: tuple[RealWorld, Proxy, Counts], hollow: Namespace
) -> None:
    real, _, counts = world
    hollow.set_count(POOL, 4)
    real.until(lambda: real.settled(POOL, 4))  # one that is not ready would go first, undrained
    revision(scaling(min=3, **QUICK))
    real.in_flight = {name: 3 - index // 3 for index, name in enumerate(_names(hollow, 4))}
    real.rps[POOL] = 1.0
    real.until(lambda: Action.objects.filter(step="draining").exists())
    (leaving,) = Action.objects.get().replicas
    assert real.in_flight[leaving] == min(real.in_flight.values()), "the one with the fewest requests"
    real.until(lambda: _drains(leaving))
    for _ in range(5):
        real.tick()
    assert counts.of(POOL)[-1] == 4 and not any(map(_cost, hollow.pods(POOL)))
    real.in_flight[leaving] = 0
    real.until(lambda: real.settled(POOL, 3))
    assert {pod.metadata.name for pod in hollow.pods(POOL)} == set(real.in_flight) - {leaving}
    assert Action.objects.get().outcome.endswith("s after the decision."), "none stayed that was drained"


def _drains(replica: str) -> bool:
    """Whether gateways are told so."""
    pools = json.loads(PublishedSnapshot.objects.get().text)["endpoints"]["pools"]
    return any(each["replica"] == replica and each.get("draining") for each in pools[POOL])


def _cost(pod: Any) -> str:
    return str((pod.metadata.annotations or {}).get("controller.kubernetes.io/pod-deletion-cost", ""))


def _names(namespace: Namespace, count: int) -> list[str]:
    namespace.has_pods(POOL, count)
    return [pod.metadata.name for pod in namespace.pods(POOL)]


def test_a_count_whose_acceptance_was_lost_is_written_once(world: tuple[RealWorld, Proxy, Counts]) -> None:
    real, proxy, counts = world
    revision(scaling(**QUICK))
    real.until(lambda: real.settled(POOL, 2))
    real.real.claim(1, [POOL])
    real.rps[POOL] = 60.0
    with proxy.fault(writes_a_count, LOSE_ANSWER, times=1) as lost:
        real.until(lambda: lost.hits == 1)
    real.until(lambda: real.settled(POOL, 8))
    assert scale_writes(proxy) == len(counts.of(POOL)) - 1
    assert counts.of(POOL) == sorted(counts.of(POOL))


def test_a_count_that_a_hand_has_set_is_left_alone_and_said(
    world: tuple[RealWorld, Proxy, Counts], hollow: Namespace
) -> None:
    real, proxy, _ = world
    revision(scaling(**QUICK))
    real.rps[POOL] = 60.0
    real.until(lambda: real.settled(POOL, 8))
    writes = scale_writes(proxy)
    hollow.set_count(POOL, 3, manager="kubectl-edit")
    real.until(lambda: "owner" in real.faults)
    for _ in range(5):
        real.tick()
    assert hollow.count(POOL) == 3 and scale_writes(proxy) == writes


def test_beside_an_autoscaler_its_floor_is_raised_and_its_count_left_alone(
    world: tuple[RealWorld, Proxy, Counts], hollow: Namespace
) -> None:
    real, proxy, _ = world
    hollow.create(autoscaler("cpu", POOL, 2, 20))
    revision(scaling(**QUICK, other_owner="cooperate"))
    real.rps[POOL] = 60.0
    real.until(
        lambda: hollow.scaling.read_namespaced_horizontal_pod_autoscaler("cpu", hollow.name).spec.min_replicas == 8
    )
    assert scale_writes(proxy) == 0


def test_a_hand_is_noticed_on_a_deployment_that_was_created_after_its_policy(
    world: tuple[RealWorld, Proxy, Counts], hollow: Namespace
) -> None:
    """Weir undid what the hand had set, because no leader had taken that Deployment on."""
    real, _, _ = world
    hollow.apps.delete_namespaced_deployment(POOL, hollow.name)
    revision(scaling(**QUICK))
    real.until(lambda: "unmanaged" in real.faults)
    hollow.create(deployment(POOL, 2))
    real.until(lambda: real.settled(POOL, 2) and real.real.seen().pools[POOL].taken_on)
    real.tick()
    _by_hand(real, hollow)


def test_a_deployment_that_is_created_anew_is_anothers_for_each_leader(
    world: tuple[RealWorld, Proxy, Counts], hollow: Namespace
) -> None:
    """The next leader took its count on, and what was said ended by itself."""
    real, _, _ = world
    revision(scaling(**QUICK))
    real.until(lambda: real.settled(POOL, 2) and real.real.seen().pools[POOL].taken_on)
    real.tick()
    hollow.apps.delete_namespaced_deployment(POOL, hollow.name)
    hollow.create(deployment(POOL, 3))
    real.until(lambda: "owner" in real.faults)
    real.next_leader()
    _by_hand(real, hollow)


def _by_hand(real: RealWorld, hollow: Namespace) -> None:
    real.faults.clear()
    hollow.set_count(POOL, 5, manager="kubectl-scale")
    real.until(lambda: "owner" in real.faults)
    for _ in range(5):
        real.tick()
    assert (hollow.count(POOL), {fault.kind for fault in real.tick().faults}) == (5, {"owner"})
