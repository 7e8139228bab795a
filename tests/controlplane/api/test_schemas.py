"""What request bodies and parameters of every endpoint share."""

import pytest
from pydantic import ValidationError

from controlplane.api.endpoints.plan_jobs import BenchmarkIn
from controlplane.api.filters import RequestFilters
from controlplane.telemetry.query.core.question import DIMENSIONS


def test_every_dimension_of_requests_is_a_filter() -> None:
    assert set(DIMENSIONS) <= set(RequestFilters.model_fields)


def test_a_whole_number_may_be_written_with_a_point() -> None:
    """JSON Schema calls 600.0 an integer."""
    given = BenchmarkIn(pool="chat", limit_s=600.0, ttft_ms=200.0, slots=4.0)
    assert (given.limit_s, type(given.limit_s), given.ttft_ms, given.slots) == (600, int, 200, 4)
    for wrong in (600.5, "600", True):
        with pytest.raises(ValidationError):
            BenchmarkIn(pool="chat", limit_s=wrong)
