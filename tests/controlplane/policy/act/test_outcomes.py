"""What a canary has shown stays in the routes, whatever becomes of its policy and of the controller."""

import pytest

from controlplane.fleet.models import PublishedSnapshot, SnapshotRevision
from controlplane.policy.act.outcomes import weights_after
from controlplane.policy.core.observation import Arm, CanaryCounts, Stratum
from controlplane.policy.models import PolicyRevision
from inference.contract import snapshot
from inference.contract.plan import plans_of
from inference.contract.rules import NO_OVERLAY
from tests.support.policy.world import World, fleet, revision

CANARY = """\
    apiVersion: weir/v1
    kind: Canary
    metadata:
      name: try-new
    spec:
      model: chat
      baseline: old
      candidate: new
      steps: [50]
      max_requests: 1000
"""
SERVED = 1_000
FAILING = Arm(SERVED, SERVED)
SOUND = Arm(SERVED, 0, SERVED, 50, 10)
"""5 % above the 95th percentile."""


@pytest.fixture
def world() -> World:
    fleet({"old": "chat", "new": "chat"})
    revision(CANARY, name="try-new", kind="Canary")
    world = World()
    world.tick(1)
    return world


def end(world: World, candidate: Arm) -> None:
    began_ms = world.now_ms
    strata = (Stratum(candidate=candidate, baseline=SOUND),)
    world.canaries["try-new"] = CanaryCounts(since_ms=began_ms, until_ms=began_ms, strata=strata, age_ms=0)
    world.tick(1)


def in_force() -> snapshot.Snapshot:
    return snapshot.decode(PublishedSnapshot.objects.get().text.encode())


def routed(*, expired: bool = False) -> dict[str, int]:
    """What gateways do with a request, also once the overlay has expired."""
    document = in_force()
    overlay = NO_OVERLAY if expired else document.overlay
    plan = plans_of(document.models, document.pools, [], (), overlay)["chat"].plain
    return {route.pool: route.weight for route in plan.routes if route.weight}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("candidate", "winner"), [(FAILING, "old"), (SOUND, "new")])
def test_an_outcome_outlasts_controller_and_policy(world: World, candidate: Arm, winner: str) -> None:
    assert set(routed()) == {"old", "new"}
    end(world, candidate)
    assert set(routed()) == {winner}
    assert set(routed(expired=True)) == {winner}, "the controller is away"
    assert SnapshotRevision.objects.latest("version").author == "Weir, canary try-new"
    revisions = SnapshotRevision.objects.count()
    world.new_engine()
    world.generation += 1
    world.tick(5)
    PolicyRevision.objects.update(state="retired")
    world.tick(5)
    assert in_force().overlay.canary == {}
    assert set(routed()) == {winner}
    assert SnapshotRevision.objects.count() == revisions, "it is written once"


@pytest.mark.django_db(transaction=True)
def test_a_next_canary_begins_from_the_outcome_of_the_last(world: World) -> None:
    end(world, FAILING)
    PolicyRevision.objects.update(state="retired")
    revision(CANARY.replace("[50]", "[25]"), name="try-new", kind="Canary", number=2)
    world.tick(1)
    assert routed() == {"old": 15_000, "new": 5_000}


@pytest.mark.parametrize(
    ("percent", "entered", "after"),
    [
        ({"old": 100, "new": 0}, {"old": 80, "new": 20}, {"old": 100, "new": 0}),
        ({"old": 0, "new": 100}, {"old": 100, "new": 0}, {"old": 0, "new": 100}),
        ({"old": 0, "new": 100}, {"old": 9_000, "new": 9_000}, {"old": 0, "new": 10_000}),
        ({"old": 0, "new": 100}, {"old": 100}, {}),
        ({"old": 100, "new": 0}, {"old": 0, "new": 0}, {}),
    ],
)
def test_the_winner_gets_what_both_had(percent: dict[str, int], entered: dict[str, int], after: dict[str, int]) -> None:
    assert weights_after(percent, entered) == after
