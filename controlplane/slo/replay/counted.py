"""Reads the hours that the controller counted of objectives, and compares days out of them."""

import json
from collections.abc import Mapping, Sequence

from controlplane.slo.core.burndown import HOUR_S, Day, day_of
from controlplane.slo.core.count_plan import definition, late_of
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.period import SECOND_NS
from controlplane.slo.queries import ObjectiveStatus
from controlplane.telemetry.query import answers

Scoped = tuple[Objective, Mapping[str, str]]
Hours = Mapping[int, tuple[int, int]]


def two_days(statuses: Sequence[ObjectiveStatus], days_back: int, now_ns: int) -> dict[str, tuple[Day, Day]]:
    """By key: the 24 hours up to the last full hour, and those `days_back` days before. Raises StoreUnavailableError."""
    end = now_ns // SECOND_NS // HOUR_S
    scoped: dict[str, Scoped] = {}
    for status in statuses:
        try:
            scoped[status.key] = status.row.to_objective(), status.scope
        except (ValueError, TypeError):
            continue  # it is said to be unknown
    hours = hours_of(scoped, end - 24 * (days_back + 1), end)
    return {key: (day_of(counted, end, 0), day_of(counted, end, days_back)) for key, counted in hours.items()}


def hours_of(scoped: Mapping[str, Scoped], from_hour: int, to_hour: int, late_s: int = 0) -> dict[str, Hours]:
    """By key of an objective and scope: bad and total events of the hours (since the epoch) that were counted; with `late_s` those from so
    long after each full hour to its end.
    """
    names = {key: definition(objective) for key, (objective, _) in scoped.items()}
    if late_s:
        names = {key: late_of(name, late_s) for key, name in names.items()}
    table = answers.store().objectives.tallies(sorted(set(names.values())), from_hour, to_hour)
    by_name: dict[str, dict[int, dict[str, tuple[int, int]]]] = {}
    columns = (table[name].to_pylist() for name in ("definition", "hour", "splits", "bad", "total"))
    for name, hour, splits, bad, total in zip(*columns, strict=True):
        by_name.setdefault(name, {})[hour] = dict(zip(splits, zip(bad, total, strict=True), strict=True))
    counted: dict[str, Hours] = {}
    for key, (objective, scope) in scoped.items():
        split = json.dumps([scope.get(name, "") for name in objective.split_by])
        counted[key] = {hour: splits.get(split, (0, 0)) for hour, splits in by_name.get(names[key], {}).items()}
    return counted
