"""What the ledger has of the two pools of a canary."""

from typing import Any

import pytest

from controlplane.telemetry.core.canary_rows import CanaryReading
from controlplane.telemetry.ledger.row import Attempt, LedgerRow
from controlplane.telemetry.store import Store, StoreInputError
from tests.support.telemetry.samples import NOON_NS, S, row

MS = 1_000_000
START_NS = NOON_NS // (60 * S) * 60 * S


def request(number: int, pool: str, ms: int, *, at_s: float = 0, **changes: Any) -> LedgerRow:
    at_ns = START_NS + int(at_s * S) + number
    return row(number, pool=pool, entry_start_ns=at_ns, stages={"queue": 0, "model": ms * MS}, **changes)


def read(store: Store, starts_s: tuple[int, ...] = (0,), to_s: int = 600) -> CanaryReading:
    return store.canaries.reading(
        "small", "old", "new", [START_NS + at * S for at in starts_s], START_NS + to_s * S, 0.9, 0.5
    )


def sums(reading: CanaryReading, pool: str, stratum: int = 0) -> tuple[int, ...]:
    rows = [each for each in reading.rows if (each.pool, each.stratum) == (pool, stratum)]
    return tuple(
        sum(getattr(each, name) for each in rows) for name in ("requests", "failed", "answered", "slow", "too_slow")
    )


def test_each_pool_is_held_against_the_baselines_quantile(store: Store) -> None:
    rows = [request(number, "old", 10 * number) for number in range(1, 11)]
    rows += [request(100 + number, "new", 20 * number) for number in range(1, 11)]
    store.writer.insert_requests(rows, version=1)
    reading = read(store)
    assert reading.quantiles_ms == {(0, "old"): 100.0, (0, "new"): 200.0}
    assert sums(reading, "old") == (10, 0, 10, 0, 0)
    assert sums(reading, "new") == (10, 0, 10, 5, 3)


def test_each_stratum_has_a_quantile_of_its_own_and_minutes_are_apart(store: Store) -> None:
    rows = [request(number, "old", 10, at_s=number) for number in range(1, 120)]
    rows += [request(1_000 + number, "old", 50, at_s=120 + number) for number in range(1, 60)]
    rows += [request(2_000, "new", 30, at_s=5), request(2_001, "new", 30, at_s=130)]
    store.writer.insert_requests(rows, version=1)
    reading = read(store, starts_s=(0, 120))
    assert sums(reading, "new", 0) == (1, 0, 1, 1, 1)
    assert sums(reading, "new", 1) == (1, 0, 1, 0, 0)
    assert [each.requests for each in reading.rows if each.pool == "old"] == [59, 60, 59]


def test_a_request_that_another_pool_had_to_answer_was_failed_by_the_first(store: Store) -> None:
    failed = Attempt("new", "r", "error", "unavailable", retried=True, ns=1, model_ns=1)
    helped = Attempt("old", "r", "ok", "", retried=False, ns=1, model_ns=1)
    store.writer.insert_requests([request(1, "old", 10, attempts=(failed, helped))], version=1)
    reading = read(store)
    assert sums(reading, "new") == (1, 1, 0, 0, 0)
    assert sums(reading, "old") == (0, 0, 0, 0, 0)


def test_what_says_nothing_of_a_pool_is_not_counted(store: Store) -> None:
    store.writer.insert_requests(
        [
            *(request(number, "old", 10) for number in range(1, 11)),
            request(20, "new", 10, cache_outcome="hit"),
            request(21, "new", 1, status="rejected", error_type="rate_limit_exceeded"),
            request(22, "new", 5, status="cancelled"),
            request(23, "new", 10, model="large"),
            request(24, "new", 10, at_s=601),
            request(25, "new", 40, status="cancelled"),
            request(26, "new", 40, status="error", error_type="timeout"),
        ],
        version=1,
    )
    assert sums(read(store), "new") == (2, 1, 1, 1, 1)


def test_without_requests_there_is_nothing(store: Store) -> None:
    assert read(store) == CanaryReading((), {})
    with pytest.raises(StoreInputError, match="not ascending"):
        read(store, starts_s=(5, 1))
