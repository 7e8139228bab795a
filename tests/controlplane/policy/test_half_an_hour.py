"""Half an hour without metrics, without GPUs and nodes, and without the cluster's API: nothing wrong is done, each is seen and paged, and
what was missed is made up for. The clock is the test's; a tick, the database, the incidents and their pages are as in earnest.
"""

from datetime import timedelta

import pytest

from controlplane.fleet.clusters.errors import UnreachableError
from controlplane.fleet.models import Observation
from controlplane.incidents.decide.watch import look
from controlplane.incidents.models import Incident
from controlplane.policy.act.journal import at
from controlplane.policy.models import Action
from tests.support.policy.world import CLUSTER, POOL, World, revision, scaling, world_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("away")]

HALF_AN_HOUR_S = 1_800
LOOKED_FOR = timedelta(hours=1)
DOWN = "{stabilisation_s: 60, cooldown_s: 30}"


@pytest.fixture
def world() -> World:
    """Three replicas, which the traffic of now needs."""
    world = world_of(3)
    world.rps[POOL] = 22
    return world


def _incident(world: World, component: str) -> Incident | None:
    """The incident of a component, after the worker has looked at what was observed."""
    now = at(world.now_ms)
    look(now - LOOKED_FOR, now)
    return Incident.objects.filter(alert_key=f"component:{component}").order_by("-opened_at").first()


def _wait(world: World, seconds: int, looks_every_s: int = 60) -> None:
    """The worker looks all the while."""
    for _ in range(0, seconds, looks_every_s):
        world.tick(looks_every_s, every_s=60)
        look(at(world.now_ms) - LOOKED_FOR, at(world.now_ms))


def test_without_metrics(world: World) -> None:
    revision(scaling(scale_down=DOWN))
    world.tick(10)
    world.silent = True
    _wait(world, HALF_AN_HOUR_S, looks_every_s=300)
    assert world.cluster.counts(POOL) == []
    incident = _incident(world, f"policy:metrics:{POOL}")
    assert incident is not None and incident.severity == "page" and incident.resolved_at is None
    assert "was last seen" in Observation.objects.get(component=f"policy:metrics:{POOL}").error
    world.silent = False
    world.rps[POOL] = 38
    world.tick(60, every_s=5)
    assert world.cluster.counts(POOL)[-1] == 5, "what came meanwhile is served within a minute"
    _wait(world, 120)
    incident = _incident(world, f"policy:metrics:{POOL}")
    assert incident is not None and incident.resolved_at is not None


def test_without_the_clusters_api(world: World) -> None:
    revision(scaling(scale_down=DOWN))
    world.tick(10)
    world.cluster.failing = UnreachableError("no answer within 5 s")
    world.cluster.problem = "no answer within 5 s"
    world.rps[POOL] = 38
    for _ in range(0, HALF_AN_HOUR_S, 300):
        world.cluster.age_ms += 300_000
        _wait(world, 300, looks_every_s=300)
    assert world.cluster.counts(POOL) == []
    incident = _incident(world, f"policy:cluster:{CLUSTER}")
    assert incident is not None and incident.severity == "page"
    world.cluster.failing, world.cluster.problem, world.cluster.age_ms = None, "", 0
    world.tick(60, every_s=5)
    assert world.cluster.counts(POOL) == [5]
    assert Action.objects.filter(step="done").count() == 1
    _wait(world, 120)
    incident = _incident(world, f"policy:cluster:{CLUSTER}")
    assert incident is not None and incident.resolved_at is not None


@pytest.mark.parametrize(
    ("adds_nodes", "counts", "component", "said"),
    [("false", [], "gpus", "has 0 free GPUs"), ("true", [5], "pending", "got no node within 5 min")],
    ids=["no replica is asked for", "it is asked for once: an autoscaler of nodes sees pods that wait"],
)
def test_without_gpus(world: World, adds_nodes: str, counts: list[int], component: str, said: str) -> None:
    revision(scaling(scale_down=DOWN, cluster_adds_nodes=adds_nodes, pending_deadline_s=300))
    world.tick(10)
    world.cluster.places = 3
    world.rps[POOL] = 38
    _wait(world, HALF_AN_HOUR_S, looks_every_s=300)
    assert (world.cluster.counts(POOL), world.cluster.removed) == (counts, [])
    incident = _incident(world, f"policy:{component}:{POOL}")
    assert incident is not None and incident.severity == "page"
    assert said in Observation.objects.get(component=f"policy:{component}:{POOL}").error
    world.cluster.places = 8
    world.tick(60, every_s=5)
    assert world.cluster.workloads[POOL].count == 5
