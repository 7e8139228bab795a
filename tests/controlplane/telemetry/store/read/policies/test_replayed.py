"""Recorded requests, by what a policy's rules and steps look at."""

from typing import Any

from controlplane.telemetry.core.replayed_rows import RuledHour, TierMinute
from controlplane.telemetry.ledger.row import Attempt, LedgerRow
from controlplane.telemetry.store import Store
from tests.support.telemetry.samples import HOUR, NOON_NS, S, row

MS = 1_000_000


def request(number: int, ms: int = 100, *, at_s: float = 0.0, **changes: Any) -> LedgerRow:
    at_ns = NOON_NS + int(at_s * S) + number
    return row(number, entry_start_ns=at_ns, stages={"queue": 0, "model": ms * MS}, **changes)


def test_requests_are_counted_by_all_that_rules_look_at(store: Store) -> None:
    moved = Attempt("old", "r", "error", "unavailable", retried=True, ns=1, model_ns=1)
    helped = Attempt("small-eu", "r", "ok", "", retried=False, ns=1, model_ns=1)
    store.writer.insert_requests(
        [
            request(1, prompt_tokens=99, output_tokens=10),
            request(2, prompt_tokens=100, output_tokens=200),
            request(3, prompt_tokens=None, tier="batch"),
            request(4, prompt_tokens=5_000, tenant="named", cache_outcome="hit", output_tokens=200),
            request(5, prompt_tokens=5_000, tenant="named", status="error", error_type="unavailable"),
            request(6, prompt_tokens=99, attempts=(moved, helped)),
            request(7, status="rejected", error_type="rate_limit_exceeded"),
            request(8, model="other"),
        ],
        version=1,
    )
    rows = {each[:5]: each for each in store.replayed.rows(HOUR, "small", [100, 1_000], ["named"], [50])}
    at_100_ms = 320  # 40 · log10(1e8 ns)
    assert rows["standard", "", "eu", 0, "small-eu"][5:] == (at_100_ms, 1, 1, 0, (0,))
    assert rows["standard", "", "eu", 1, "small-eu"][5:] == (at_100_ms, 1, 1, 0, (1,))
    assert rows["batch", "", "eu", 0, "small-eu"][5:] == (at_100_ms, 1, 1, 0, (0,))
    # an answer of the cache has no latency of a pool, and is not longer by a server's work
    assert rows["standard", "named", "eu", 2, "small-eu"][5:] == (None, 2, 1, 1, (0,))
    # another pool answered: it says nothing of how fast the first one is
    assert rows["standard", "", "eu", 0, "old"][5:] == (None, 1, 1, 0, (0,))
    assert sum(each.requests for each in rows.values()) == 6


def test_hours_and_minutes(store: Store) -> None:
    store.writer.insert_requests(
        [
            request(1, output_tokens=300),
            request(2, at_s=60, cache_outcome="hit", output_tokens=300),
            request(3, at_s=3_000, tier="batch"),
        ],
        version=1,
    )
    hours, minute = NOON_NS // (3600 * S), NOON_NS // (60 * S)
    later = (NOON_NS + 3_000 * S) // (3600 * S)
    assert sorted(store.replayed.hours(HOUR, "small", [], [])) == [
        RuledHour("batch", "", "eu", 0, later, 1),
        RuledHour("standard", "", "eu", 0, hours, 1),
    ]
    assert store.replayed.tier_minutes(HOUR, "small", ["standard"], [256, 300]) == [
        TierMinute("standard", minute, 1, 1, (1, 0)),
        TierMinute("standard", minute + 1, 1, 0, (0, 0)),
    ]
