"""A process that is killed between any two steps of an action leaves one record and one outcome to the next leader."""

from collections.abc import Iterator

import pytest

from controlplane.fleet import publish
from controlplane.fleet.models import PublishedSnapshot, Replica
from controlplane.policy import plan_actions
from controlplane.policy.act import journal
from controlplane.policy.models import Action, DecisionChange, DecisionRecord, Memory
from controlplane.policy.write_records import DecisionTrack
from tests.support.policy.cluster import ClusterInMemory
from tests.support.policy.crashing import Killed, Points, killed_at
from tests.support.policy.world import POOL, World, fleet, revision, scaling

pytestmark = pytest.mark.django_db(transaction=True)

POINTS = {
    "claim": ClusterInMemory,
    "scale": ClusterInMemory,
    "prefer_removal": ClusterInMemory,
    "write_record": DecisionTrack,
    "begin": plan_actions,
    "move": journal,
    "publish": publish,
}
"""What a tick and its actions do outside of the process."""


def _world() -> World:
    for model in (Action, DecisionChange, DecisionRecord, Memory, PublishedSnapshot, Replica):
        model.objects.all().delete()
    world = World()
    world.cluster.add(POOL, 2)
    return world


def _run(world: World, points: Points, until: int) -> bool:
    """Tick until the count is `until` and nothing is under way, through at most one kill; whether there was one."""
    killed = False
    for _ in range(14):
        try:
            with killed_at(points, {} if killed else POINTS):
                world.tick(1)
        except Killed:
            killed = True
            world.generation += 1
            world.new_engine()
        if world.cluster.workloads[POOL].count == until and not journal.any_undone():
            break
    return killed


def _points(begin_rps: float, rps: float, until: int) -> Iterator[tuple[World, str]]:
    """The world after each way to be killed."""
    kill_at = 1
    while True:
        world = _world()
        if begin_rps != rps:
            world.rps[POOL] = begin_rps
            world.tick(2)
        world.rps[POOL] = rps
        points = Points(kill_at)
        if not _run(world, points, until):
            return
        yield world, points.names[-1]
        kill_at += 1


@pytest.mark.parametrize(
    ("begin_rps", "rps", "until"), [(36.0, 36.0, 4), (12.0, 1.0, 1)], ids=["scales up", "drains and scales down"]
)
def test_killed_between_any_two_steps(begin_rps: float, rps: float, until: int) -> None:
    fleet()
    revision(scaling(scale_down="{stabilisation_s: 1, cooldown_s: 0, max_step: 1}", scale_up="{max_step: 5}"))
    seen = set()
    for world, point in _points(begin_rps, rps, until):
        seen.add(point)
        counts = world.cluster.counts(POOL)
        assert world.cluster.workloads[POOL].count == until, point
        assert counts[-1] == until and len(counts) == len(set(counts)), (point, counts)
        done = Action.objects.filter(after=until, step="done")
        assert done.count() == 1, (point, list(Action.objects.values_list("after", "step", "outcome")))
        assert done[0].outcome and done[0].decision.changes.filter(kind="scale").count() == 1, point
        assert not journal.any_undone(), point
        assert not Replica.objects.filter(draining=True, name__in=_names(world)).exists(), point
    expected = {"before scale", "after scale", "before move", "after move", "before write_record", "after begin"}
    assert expected <= seen, sorted(seen)


def _names(world: World) -> list[str]:
    return [replica.name for replica in world.cluster.workloads[POOL].replicas]
