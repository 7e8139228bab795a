"""What ticks know of planning."""

import time

import pytest

from controlplane.policy.observe import planned
from tests.support.stored_pool import stored_pool

pytestmark = pytest.mark.django_db


def test_a_pool_that_nobody_has_measured_or_planned_yet_is_known_without_a_capacity() -> None:
    stored_pool("chat-local")
    seen = planned.read(time.time())
    assert list(seen.pools) == ["chat-local"]
    assert seen.pools["chat-local"].capacity is None
    assert seen.pools["chat-local"].warm is None
