"""Fills a store's rollups as the telemetry process does, bins values without ClickHouse, and compares rollups with the ledger."""

from collections.abc import Sequence

from controlplane.telemetry.store import Store
from controlplane.telemetry.store.maintenance.rollups import together
from controlplane.telemetry.store.tiers import TIERS, Tier

DIMENSIONS = ("model", "variant", "pool", "tier", "region", "cache_outcome", "status", "ttft_definition")
OF_REQUESTS = [tier for tier in TIERS if tier.kind != "metrics"]


def fill(store: Store, now_ns: int, retention_days: int = 30) -> int:
    """Fill until nothing is due. Returns how many stretches were built."""
    built = 0
    while due := store.rollups.due(now_ns, retention_days):
        built += sum(store.rollups.fill(run, now_ns) for run in together(due))
    return built


def bins_of(values: Sequence[int]) -> list[int]:
    """The bin of each value, by whole numbers alone."""
    exponents = [max(value.bit_length() - 8, 0) for value in values]
    return [(value >> exponent) + 128 * exponent for value, exponent in zip(values, exponents, strict=True)]


def assert_equals_the_ledger(store: Store, from_s: int, to_s: int, tiers: Sequence[Tier] = OF_REQUESTS) -> None:
    """Each tier's current builds of [from_s, to_s) have the counts and sums of the requests, by step and dimensions."""
    for tier in tiers:
        table = tier.kind
        dimensions = ("model", "tier", "region") if table == "demand" else DIMENSIONS
        columns = {
            "requests": "count()",
            "input_tokens": "sum(ifNull(prompt_tokens, 0))",
            "output_tokens": "sum(ifNull(output_tokens, 0))",
        }
        rolled = store.rows(
            f"SELECT start_s, {', '.join(f'toString({name})' for name in dimensions)}, {', '.join(f'sum({name})' for name in columns)}"
            f" FROM {table} WHERE start_s >= {from_s} AND start_s < {to_s}"
            + (f" AND step_s = {tier.step_s}" if table == "rollups" else "")
            + f" AND build IN (SELECT build FROM rollup_builds FINAL WHERE kind = '{table}' AND step_s = {tier.step_s})"
            " GROUP BY ALL ORDER BY ALL"
        )
        written = store.rows(
            f"SELECT intDiv(entry_start_ns, {tier.step_s}000000000) * {tier.step_s} AS start_s,"
            f" {', '.join(f'toString({name})' for name in dimensions)}, {', '.join(columns.values())}"
            f" FROM requests FINAL WHERE entry_start_ns >= {from_s}000000000 AND entry_start_ns < {to_s}000000000"
            " GROUP BY ALL ORDER BY ALL"
        )
        assert rolled == written, f"{table} by {tier.step_s} s"
