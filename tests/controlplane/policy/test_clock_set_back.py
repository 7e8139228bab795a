"""The controller's clock was an hour ahead, and is set back: what was remembered by it counts from now on, and holds nothing up."""

import pytest

from controlplane.fleet.clusters.errors import ThrottledError
from controlplane.policy.models import Action, DecisionRecord
from controlplane.policy.models import Memory as MemoryRow
from tests.support.policy.world import POOL, World, revision, scaling, snapshot_in_force, world_of

pytestmark = pytest.mark.django_db(transaction=True)

HOUR_MS = 3_600_000
DOWN = "{stabilisation_s: 10, cooldown_s: 10, max_step: 5}"
LADDER = """
    apiVersion: weir/v1
    kind: Degradation
    metadata: {name: ladder}
    spec:
      model: chat
      tiers: [batch]
      steps: [{name: shorter, enter: waiting > 20.0, exit: waiting < 1.0, max_output_tokens: 64, min_stay_s: 10}]
"""


@pytest.fixture
def world() -> World:
    return world_of(2)


def _set_back(world: World) -> None:
    world.now_ms -= HOUR_MS


def test_a_load_that_rises_is_seen_as_fast_as_ever(world: World) -> None:
    revision(scaling())
    world.heard_for_long()
    world.tick(30)
    _set_back(world)
    world.rps[POOL] = 35
    ticked = world.tick(20)
    assert ticked.observation is not None
    assert ticked.observation.pools[POOL].arrived_rps == pytest.approx(35, abs=1)
    assert world.cluster.counts(POOL)[-1] == 5


def test_limits_of_speed_end_as_soon_as_they_say(world: World) -> None:
    revision(scaling(rate="{period_s: 60, max_up: 1}", scale_down=DOWN))
    world.rps[POOL] = 35
    world.heard_for_long()
    world.tick(5)
    assert world.cluster.counts(POOL) == [3]
    _set_back(world)
    world.tick(70)
    assert world.cluster.counts(POOL) == [3, 4]
    world.rps[POOL] = 0
    world.tick(400, every_s=2)
    assert world.cluster.counts(POOL)[-1] == 1


@pytest.mark.parametrize("killed", [False, True])
def test_a_degradation_ends_with_its_reason(world: World, killed: bool) -> None:
    revision(LADDER, name="ladder", kind="Degradation")
    world.waiting = 30
    world.tick(5)
    assert snapshot_in_force().overlay.degradation
    _set_back(world)
    if killed:
        world.generation += 1
        world.new_engine()
    world.waiting = 0
    world.tick(20)
    assert snapshot_in_force().overlay.degradation == ()


def test_what_gateways_obey_is_renewed_and_records_and_memory_are_written(world: World) -> None:
    revision(LADDER, name="ladder", kind="Degradation")
    world.waiting = 30
    world.tick(5)
    _set_back(world)
    world.tick(180, every_s=2)
    assert snapshot_in_force().overlay.expires_ms < world.now_ms + HOUR_MS
    last_s = world.now_ms / 1_000
    assert last_s - DecisionRecord.objects.order_by("-pk")[0].at.timestamp() <= 60
    assert last_s - MemoryRow.objects.get(name=MemoryRow.ACTIVE).at.timestamp() <= 10


def test_an_action_that_waited_to_be_tried_again_begins_anew(world: World) -> None:
    revision(scaling())
    world.rps[POOL] = 35
    world.heard_for_long()
    world.cluster.failing = ThrottledError("too many requests", retry_after_s=20)
    world.tick(3)
    world.cluster.failing = None
    _set_back(world)
    world.tick(15)
    assert world.cluster.counts(POOL) == [5]
    outcomes = [action.outcome for action in Action.objects.order_by("pk")]
    assert outcomes[0] == "The clock was set back since it began: the pool is judged anew."
