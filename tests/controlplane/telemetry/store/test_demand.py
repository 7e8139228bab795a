"""Demand as it is read: current builds, any step, and which steps were measured."""

import numpy as np
import pytest

from controlplane.telemetry.store import Store, StoreInputError
from tests.support.planning.stored_demand import TOKENS_IN, store_demand, store_recorded
from tests.support.telemetry.embedded_store import UNASKED

FROM_S = 1_794_787_200
"""2026-11-16 00:00 UTC: long over."""
TO_S = FROM_S + 6 * 300
EU, US = ("chat-large", "premium", "eu"), ("chat-large", "premium", "us")


def read(store: Store, **options: object) -> dict[str, list[tuple[int, float]]]:
    rows = store.demand.steps(FROM_S, TO_S, **options)  # type: ignore[arg-type]
    return {
        row.region: sorted(zip(((row.start_s - FROM_S) // 300).tolist(), row.counts["requests"].tolist(), strict=True))
        for row in rows
    }


def test_demand_is_read_by_key_and_step(store: Store) -> None:
    store_demand(store, FROM_S, [5, 0, 7], EU, shed=1)
    store_demand(store, FROM_S, [2, 4, 0, 6], US, build=100, finished=False)
    assert read(store) == {"eu": [(0, 5), (2, 7)]}, "a build that is not finished does not count"
    store_demand(store, FROM_S, [0, 4], US, build=200)
    assert read(store) == {"eu": [(0, 5), (2, 7)], "us": [(1, 4)]}


def test_longer_steps_are_sums_and_a_key_can_be_read_alone(store: Store) -> None:
    store_demand(store, FROM_S, [5, 1, 7, 2], EU)
    store_demand(store, FROM_S, [9, 9, 9, 9], US, finished=False)
    assert read(store, step_s=600, key=EU) == {"eu": [(0, 6), (2, 9)]}
    assert read(store, step_s=600, key=("chat-small", "premium", "eu")) == {}
    [eu] = store.demand.steps(FROM_S, TO_S, 600, EU)
    assert sorted(eu.counts["input_tokens"].tolist()) == [6 * TOKENS_IN, 9 * TOKENS_IN]


def test_nothing_counted_means_none_only_where_telemetry_received(store: Store) -> None:
    store_demand(store, FROM_S, [5, 0, 0, 8, 9], EU)
    store_recorded(store, FROM_S, [300, 300, 140, 0, 20, 299])
    assert store.demand.measured(FROM_S, TO_S).tolist() == [True, True, False, True, False, True]
    assert store.demand.measured(FROM_S, TO_S, 900).tolist() == [True, False]


def test_written_requests_that_are_not_counted_yet_are_a_gap(store: Store) -> None:
    store_recorded(store, FROM_S, [300] * 6)
    store.command(f"INSERT INTO rollup_touched VALUES ({FROM_S // 300 + 1}, 3)")
    assert store.demand.measured(FROM_S, TO_S).tolist() == [True, False, True, True, True, True]


def test_time_that_is_not_over_is_not_measured(store: Store) -> None:
    ahead_s = 4_000_000_200
    store_recorded(store, ahead_s, [300])
    assert not np.any(store.demand.measured(ahead_s, ahead_s + 300))


@pytest.mark.parametrize("wrong", [(FROM_S, TO_S, 60), (FROM_S + 1, TO_S, 300), (TO_S, FROM_S, 300)])
def test_a_range_that_does_not_fit_is_refused(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(StoreInputError, match=r"step_s|range"):
        UNASKED.demand.steps(*wrong)


def test_an_empty_store_has_no_demand(store: Store) -> None:
    assert store.demand.steps(FROM_S, TO_S) == []
    assert not store.demand.measured(FROM_S, TO_S).any()
