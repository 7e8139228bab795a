"""Reads how objectives did in the last whole 24 hours, and in the same hours of an earlier day."""

import json
from collections.abc import Mapping, Sequence

from controlplane.slo.core.burndown import HOUR_S, Day, day_of
from controlplane.slo.core.count_plan import definition
from controlplane.slo.core.period import SECOND_NS
from controlplane.slo.queries import ObjectiveStatus
from controlplane.telemetry.query import answers


def two_days(statuses: Sequence[ObjectiveStatus], days_back: int, now_ns: int) -> dict[str, tuple[Day, Day]]:
    """By key: the 24 hours up to the last full hour, and those `days_back` days before. Raises StoreUnavailableError."""
    end = now_ns // SECOND_NS // HOUR_S
    names: dict[str, tuple[str, str]] = {}
    for status in statuses:
        try:
            objective = status.row.to_objective()
        except (ValueError, TypeError):
            continue  # it is said to be unknown
        names[status.key] = (
            definition(objective),
            json.dumps([status.scope.get(name, "") for name in objective.split_by]),
        )
    counted = _by_hour({name for name, _ in names.values()}, end - 24 * (days_back + 1), end)
    return {
        key: (day_of(hours, end, 0), day_of(hours, end, days_back))
        for key, (name, split) in names.items()
        for hours in [{hour: splits.get(split, (0, 0)) for hour, splits in counted.get(name, {}).items()}]
    }


def _by_hour(
    definitions: set[str], from_hour: int, to_hour: int
) -> Mapping[str, Mapping[int, Mapping[str, tuple[int, int]]]]:
    """Bad and total events by definition, hour and split, of the hours that the controller counted."""
    table = answers.store().objectives.tallies(sorted(definitions), from_hour, to_hour)
    counted: dict[str, dict[int, dict[str, tuple[int, int]]]] = {}
    columns = (table[name].to_pylist() for name in ("definition", "hour", "splits", "bad", "total"))
    for name, hour, splits, bad, total in zip(*columns, strict=True):
        counted.setdefault(name, {})[hour] = dict(zip(splits, zip(bad, total, strict=True), strict=True))
    return counted
