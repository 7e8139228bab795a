"""Fills a store's rollups as the telemetry process does, bins values without ClickHouse, and compares rollups with the ledger."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from unittest.mock import patch

from controlplane.telemetry.store import Store
from controlplane.telemetry.store.maintenance import rollups
from controlplane.telemetry.store.tiers import TIERS, Tier

DIMENSIONS = ("model", "variant", "pool", "tier", "region", "cache_outcome", "status", "ttft_definition")
WANTED = "(status IN ('ok', 'cancelled') OR coalesce(http_status, 429) IN (200, 429, 502)) AND error_type != 'rate_limit_exceeded'"
OF_DEMAND = {
    "requests": f"countIf({WANTED})",
    "limited": "countIf(error_type = 'rate_limit_exceeded')",
    "input_tokens": f"sum(if({WANTED}, ifNull(prompt_tokens, 0), 0))",
    "output_tokens": "sum(if(status = 'ok', ifNull(output_tokens, 0), 0))",
}
OF_REQUESTS = [tier for tier in TIERS if tier.kind != "metrics"]


def fill(store: Store, now_ns: int, retention_days: int = 30, *, together_s: int = rollups.TOGETHER_S) -> int:
    """Fill until nothing is due. Returns how many stretches were built.

    `together_s`: how long a time one statement fills, of which tests of filled rollups choose more, because it takes less.
    """
    built = 0
    with patch.object(rollups, "TOGETHER_S", together_s):
        while due := store.rollups.due(now_ns, retention_days):
            built += sum(store.rollups.fill(run, now_ns) for run in rollups.together(due))
    return built


@contextmanager
def awake(store: Store, *tables: str) -> Iterator[None]:
    """While the block runs, an idle store's background tasks look for work at once: they may sleep over a deletion for half a minute."""
    ended = Event()

    def wake() -> None:
        while not ended.wait(0.1):
            for table in tables:
                store.command(f"SYSTEM START MERGES {table}")

    thread = Thread(target=wake)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def bins_of(values: Sequence[int]) -> list[int]:
    """The bin of each value, by whole numbers alone."""
    exponents = [max(value.bit_length() - 8, 0) for value in values]
    return [(value >> exponent) + 128 * exponent for value, exponent in zip(values, exponents, strict=True)]


def assert_equals_the_ledger(store: Store, from_s: int, to_s: int, tiers: Sequence[Tier] = OF_REQUESTS) -> None:
    """Each tier's current builds of [from_s, to_s) have the counts and sums of the requests, by step and dimensions."""
    for tier in tiers:
        table = tier.kind
        dimensions = ("model", "tier", "region") if table == "demand" else DIMENSIONS
        written_as = ("model", "tier", "caller_region") if table == "demand" else DIMENSIONS
        columns = OF_DEMAND if table == "demand" else {"requests": "count()"}
        counted = f" HAVING {columns['requests']} + {columns.get('limited', '0')} > 0"
        rolled = store.rows(
            f"SELECT start_s, {', '.join(f'toString({name})' for name in dimensions)}, {', '.join(f'sum({name})' for name in columns)}"
            f" FROM {table} WHERE start_s >= {from_s} AND start_s < {to_s}"
            + (f" AND step_s = {tier.step_s}" if table == "rollups" else "")
            + f" AND build IN (SELECT build FROM rollup_builds FINAL WHERE kind = '{table}' AND step_s = {tier.step_s})"
            " GROUP BY ALL ORDER BY ALL"
        )
        written = store.rows(
            f"SELECT intDiv(entry_start_ns, {tier.step_s}000000000) * {tier.step_s} AS start_s,"
            f" {', '.join(f'toString({name})' for name in written_as)}, {', '.join(columns.values())}"
            f" FROM requests FINAL WHERE entry_start_ns >= {from_s}000000000 AND entry_start_ns < {to_s}000000000"
            f" GROUP BY ALL{counted} ORDER BY ALL"
        )
        assert rolled == written, f"{table} by {tier.step_s} s"
