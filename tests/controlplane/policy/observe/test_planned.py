"""What ticks know of planning."""

import time

import pytest

from controlplane.fleet.models import LLMModel, Pool, Region, Variant
from controlplane.policy.observe import planned

pytestmark = pytest.mark.django_db


def test_a_pool_that_nobody_has_measured_or_planned_yet_is_known_without_a_capacity() -> None:
    model = LLMModel.objects.create(name="chat")
    variant = Variant.objects.create(name="chat", model=model)
    Pool.objects.create(
        name="chat-local", variant=variant, region=Region.objects.create(name="local"), model_name="chat"
    )
    seen = planned.read(time.time())
    assert list(seen.pools) == ["chat-local"]
    assert seen.pools["chat-local"].capacity is None
    assert seen.pools["chat-local"].warm is None
