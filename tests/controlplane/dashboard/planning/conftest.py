"""What pages of planners show plans of."""

import pytest

from tests.support.planning.fleet import plan_fleet
from tests.support.planning.stored import store_forecasts


@pytest.fixture
def planned(db: None) -> None:
    """A fleet with capacities, and forecasts of its demand."""
    plan_fleet()
    store_forecasts()
