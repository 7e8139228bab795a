"""Filters of requests that every reading endpoint takes."""

from controlplane.api.schemas.filters import RequestFilters
from controlplane.telemetry.query.core.question import DIMENSIONS


def test_every_dimension_of_requests_is_a_filter() -> None:
    assert set(DIMENSIONS) <= set(RequestFilters.model_fields)
