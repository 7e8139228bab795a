"""What a cluster refuses for good, such as by an admission policy or for a right that is missing."""

from itertools import pairwise

import pytest

from controlplane.fleet.clusters.errors import ForbiddenError
from controlplane.fleet.models import Replica
from controlplane.policy.models import Action
from tests.support.policy.world import POOL, World, revision, scaling, world_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def world() -> World:
    return world_of(3)


def test_a_removal_that_is_refused_drains_less_and_less_often_and_stays_a_fault(world: World) -> None:
    """Its replica was drained anew each minute."""
    revision(scaling(min=2, scale_down="{stabilisation_s: 3, cooldown_s: 0, max_step: 2}"))
    world.cluster.fails_to_scale = ForbiddenError("weir may not patch deployments/scale.")
    world.tick(60)
    for _ in range(29):
        fault = next(fault for fault in world.tick(60, every_s=2).faults if fault.kind == "action")
    began = [int(action.started_at.timestamp()) for action in Action.objects.order_by("pk")]
    waited_s = [later - before for before, later in pairwise(began)]
    assert [round(s / 60) for s in waited_s] == [1, 2, 4, 8, 8]
    assert {action.step for action in Action.objects.all()} == {"failed"}
    assert not Replica.objects.filter(draining=True).exists(), "they get requests again"
    assert fault.text.endswith(
        "The cluster refused it: weir may not patch deployments/scale. Its replicas get requests again; it is asked for again in 8 min."
    )
    world.cluster.fails_to_scale = None
    world.tick(8 * 60, every_s=2)
    assert world.cluster.counts(POOL) == [2]


def test_fewer_still_is_not_asked_for_while_a_smaller_removal_is_refused(world: World) -> None:
    row = revision(scaling(min=2, scale_down="{stabilisation_s: 3, cooldown_s: 0, max_step: 2}"))
    world.cluster.fails_to_scale = ForbiddenError("weir may not patch deployments/scale.")
    world.tick(20)
    row.state = "retired"
    row.save()
    revision(scaling(min=1, scale_down="{stabilisation_s: 3, cooldown_s: 0, max_step: 2}"), number=2)
    world.tick(20)
    assert list(Action.objects.values_list("after", "step")) == [(2, "failed")]
