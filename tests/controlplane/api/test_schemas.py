"""What request bodies and parameters of every endpoint share."""

import pytest
from pydantic import ValidationError

from controlplane.api.filters import RequestFilters
from controlplane.api.formats import Given
from controlplane.telemetry.query.core.question import DIMENSIONS


def test_every_dimension_of_requests_is_a_filter() -> None:
    assert set(DIMENSIONS) <= set(RequestFilters.model_fields)


class Counted(Given):
    count: int


def test_a_whole_number_may_be_written_with_a_point() -> None:
    """JSON Schema calls 600.0 an integer."""
    count = Counted.model_validate({"count": 600.0}).count
    assert (count, type(count)) == (600, int)
    for wrong in (600.5, "600", True):
        with pytest.raises(ValidationError):
            Counted.model_validate({"count": wrong})
