"""A query that exceeds the store's limits is retryable, and known from a store that is away."""

import pytest

from controlplane.telemetry.store import Store, StoreLimitError

MANY = "SELECT length(groupArray(number)) FROM numbers(20000000) SETTINGS "


@pytest.mark.parametrize(
    "limit", ["max_memory_usage = 1000000", "max_execution_time = 0.01, timeout_overflow_mode = 'throw'"]
)
def test_a_query_beyond_memory_or_time_is_said_to_be(store: Store, limit: str) -> None:
    with pytest.raises(StoreLimitError) as caught:
        store.rows(MANY + limit)
    assert caught.value.retry_after_s > 0
