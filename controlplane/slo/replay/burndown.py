"""Reads how an objective's budget went over the part of its period that was seen."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from controlplane.slo.core.burndown import HOUR_S, Point, burndown, left, needed, range_of
from controlplane.slo.core.objective import Objective, Rolling, Timeslices
from controlplane.slo.core.period import SECOND_NS, Span
from controlplane.slo.core.sli import Histogram
from controlplane.slo.core.windows import MINUTE_S
from controlplane.slo.models.planned_maintenance import enabled_maintenance
from controlplane.slo.queries import ObjectiveStatus
from controlplane.slo.replay.core.history import Sums
from controlplane.slo.replay.counted import hours_of
from controlplane.slo.replay.recorded_history import histories
from controlplane.telemetry.query import answers

YOUNG_S = 2 * HOUR_S
"""What was seen for less long is read by minute: hours are stored when they are over."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The budget over the part of the period that was seen."""

    span: Span
    points: list[Point]


def history(status: ObjectiveStatus, now_ns: int | None = None) -> Seen:
    """By hour; by minute while less than YOUNG_S was seen. Raises StoreUnavailableError, ValueError."""
    now_ns = now_ns or time.time_ns()
    objective = status.row.to_objective()
    shown = range_of(objective, now_ns)
    hours = _hours(objective, status.scope, now_ns)
    begun = [hour * HOUR_S * SECOND_NS for hour, (_, total) in hours.items() if total]
    is_ledgers = not isinstance(objective.indicator, Histogram)
    if is_ledgers and (oldest_ns := answers.store().objectives.oldest_entry()) is not None:
        begun.append(oldest_ns)
    span = Span(max(shown.from_ns, min(begun, default=shown.from_ns)), now_ns)
    if is_ledgers and span.length_s < YOUNG_S:
        return Seen(span, _minutes(objective, status.scope, span))
    is_new = (
        status.state in ("firing", "quiet") and status.at and _hour(status.at.timestamp()) == _hour(now_ns / SECOND_NS)
    )
    so_far = (status.document["bad"], status.document["total"]) if is_new else None
    return Seen(span, burndown(objective, hours, now_ns, span.from_ns // SECOND_NS, so_far))


def _hours(objective: Objective, scope: Mapping[str, str], now_ns: int) -> Mapping[int, tuple[int, int]]:
    """Those that the chart needs; of the one within which the calendar's period begins, what came from then on."""
    (first, last), scoped = needed(objective, now_ns), {"": (objective, scope)}
    hours = hours_of(scoped, first, last)[""]
    begins_s = range_of(objective, now_ns).from_ns // SECOND_NS
    if isinstance(objective.period, Rolling) or not begins_s % HOUR_S:
        return hours
    begun = hours_of(scoped, first, first + 1, begins_s % HOUR_S)[""]
    return {**{hour: counts for hour, counts in hours.items() if hour != first}, **begun}


def _hour(at_s: float) -> int:
    return int(at_s) // HOUR_S


def _minutes(objective: Objective, scope: Mapping[str, str], seen: Span) -> list[Point]:
    """The same by minute, or by slice where that is longer, out of the ledger."""
    from_s, to_s = seen.from_ns // SECOND_NS, seen.to_ns // SECOND_NS
    alone = replace(objective, windows=())  # no window needs what came before
    counted = histories(answers.store(), alone, enabled_maintenance(), from_s, to_s + MINUTE_S)
    kept = counted.get(tuple(scope.get(name, "") for name in objective.split_by))
    if kept is None or not kept.steps:
        return []
    length_s = max(MINUTE_S, objective.method.slice_s if isinstance(objective.method, Timeslices) else 0)
    width, first = length_s // kept.step_s, (from_s // length_s * length_s - kept.start_s) // kept.step_s
    sums, period = Sums(kept), objective.period
    bads, totals = (
        sums.last(period.period_s) if isinstance(period, Rolling) else sums.since(np.full(kept.steps, max(first, 0)))
    )
    own_bad, own_total = sums.since(np.arange(kept.steps) // width * width)
    points = []
    for start in range(max(first, 0), kept.steps, width):
        end = min(start + width, kept.steps) - 1
        left_share = left(objective, int(bads[end]), int(totals[end]))
        points.append(Point(kept.start_s + start * kept.step_s, left_share, int(own_bad[end]), int(own_total[end])))
    return points
