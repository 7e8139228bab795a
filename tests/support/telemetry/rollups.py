"""Fills a store's rollups as the telemetry process does, and bins values with numpy."""

from collections.abc import Sequence

from controlplane.telemetry.store import Store
from controlplane.telemetry.store.maintenance.rollups import together


def fill(store: Store, now_ns: int, retention_days: int = 30) -> int:
    """Fill until nothing is due. Returns how many stretches were built."""
    built = 0
    while due := store.due_rollups(now_ns, retention_days):
        built += sum(store.fill_rollups(run, now_ns) for run in together(due))
    return built


def bins_of(values: Sequence[int]) -> list[int]:
    """The bin of each value, by whole numbers alone."""
    exponents = [max(value.bit_length() - 8, 0) for value in values]
    return [(value >> exponent) + 128 * exponent for value, exponent in zip(values, exponents, strict=True)]
