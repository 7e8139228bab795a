"""Plans one query to the ledger for a set of objectives, and counts the good and bad events of each from its answer.

One query (`Classes`) serves all objectives; the work after it is proportional to the rows that each objective matches.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from controlplane.slo.core.document import objective_to_json
from controlplane.slo.core.maintenance_windows import MaintenanceWindow
from controlplane.slo.core.objective import Objective, Timeslices
from controlplane.slo.core.period import SECOND_NS, Span
from controlplane.slo.core.sli import Availability, Cost, Histogram, Indicator, Latency
from controlplane.telemetry.core.objective_counts import Classes, Cut

GRID_S = 10
"""Requests are counted in steps of this length, s; edges of windows lie on them."""

Split = tuple[str, ...]
Block = npt.NDArray[np.int32]
"""Bad and total (axis 0) by step of GRID_S (axis 1)."""


@dataclass(frozen=True, slots=True)
class CountTask:
    objective: Objective
    definition: str
    cut: int
    place: int  # of its threshold in the cut


def definition(objective: Objective) -> str:
    """A digest of the fields that decide what is counted. Stored counts stay valid while it is the same."""
    whole = objective_to_json(objective)
    parts = {name: whole[name] for name in ("slug", "indicator", "scope", "split_by", "method")}
    return blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=8).hexdigest()


def scope_of(objective: Objective, split: Split) -> dict[str, str]:
    return {**objective.scope, **dict(zip(objective.split_by, split, strict=True))}


class CountPlan:
    """How to count objectives that are judged by requests. `bucket_edges` counts those on histograms."""

    def __init__(
        self,
        objectives: Iterable[Objective],
        maintenance: Sequence[MaintenanceWindow] = (),
        definitions: Sequence[str] = (),
    ) -> None:
        """`definitions`: of the objectives, where they are known already."""
        counted = [objective for objective in objectives if not isinstance(objective.indicator, Histogram)]
        names = definitions or [definition(objective) for objective in counted]
        thresholds: dict[tuple[str, str], set[float]] = {}
        for objective in counted:
            thresholds.setdefault(_measure(objective.indicator), set()).update(_threshold(objective.indicator))
        measures = sorted(thresholds)
        places = {measure: at for at, measure in enumerate(measures)}
        self.maintenance = tuple(maintenance)
        self.cuts = tuple(Cut(name, tuple(sorted(thresholds[name, ttft])), ttft) for name, ttft in measures)
        self.dimensions = _dimensions(counted, maintenance)
        self.tasks = [
            CountTask(
                objective, name, at := places[_measure(objective.indicator)], self._place(at, objective.indicator)
            )
            for objective, name in zip(counted, names, strict=True)
        ]

    def _place(self, cut: int, indicator: Indicator) -> int:
        return next((self.cuts[cut].thresholds.index(threshold) for threshold in _threshold(indicator)), 0)

    def counting(self, classes: Classes, from_s: int, to_s: int) -> "Counting":
        """Counts one task at a time, so that a task that fails stops no other. Times are s since the epoch, on the grid."""
        return Counting(self, classes, from_s, to_s)


def sliced(block: Block, objective: Objective) -> Block:
    """The events of an objective: its slices, each in its first step, or the requests themselves."""
    method = objective.method
    if not isinstance(method, Timeslices):
        return block
    steps = method.slice_s // GRID_S
    bad, total = block.reshape(2, -1, steps).sum(axis=2)
    judged = total > 0
    events = np.zeros_like(block)
    events[0, ::steps] = judged & (total - bad < method.slice_target * total)
    events[1, ::steps] = judged
    return events


class Counting:
    """Counts the rows between two times task by task."""

    def __init__(self, plan: CountPlan, classes: Classes, from_s: int, to_s: int) -> None:
        self._table = _Table(classes, from_s // GRID_S, to_s // GRID_S, len(plan.cuts))
        span = Span(from_s * SECOND_NS, to_s * SECOND_NS)
        self._maintained = [
            (window, self._table.during(window, spans))
            for window in plan.maintenance
            if (spans := window.occurrences(span))
        ]

    def requests(self, task: CountTask) -> dict[Split, Block]:
        """Bad and total requests by split."""
        left_out = [rows for window, rows in self._maintained if window.concerns(task.objective.slug)]
        return self._table.blocks(task, np.logical_or.reduce(left_out) if left_out else None)


class _Table:
    """The classes, ordered by cut and combination of dimensions, so that the rows of a task are a few slices."""

    def __init__(self, classes: Classes, from_step: int, to_step: int, cuts: int) -> None:
        self.first_step, self.steps = from_step, to_step - from_step
        names = list(classes.dimensions)
        columns = [np.unique(classes.dimensions[name].astype(str), return_inverse=True) for name in names]
        code = np.zeros(len(classes.step), np.int64)
        for values, inverse in columns:
            code = code * (len(values) + 1) + inverse
        _, first, combination = np.unique(code, return_index=True, return_inverse=True)
        key = classes.cut * max(len(first), 1) + combination
        order = np.argsort(key, kind="stable")
        self.combinations = [{name: str(classes.dimensions[name][at]) for name in names} for at in first.tolist()]
        self.values = {
            name: np.array([combination[name] for combination in self.combinations], dtype=str) for name in names
        }
        self.edges = np.searchsorted(key[order], np.arange(cuts * max(len(first), 1) + 1))
        self.step = (classes.step - from_step)[order]
        self.combination = combination[order]
        self.place, self.bound, self.requests = classes.place[order], classes.bound[order], classes.requests[order]

    def during(self, window: MaintenanceWindow, spans: Sequence[Span]) -> npt.NDArray[np.bool_]:
        """Which rows lie in the spans and in the window's scope. A step that a span touches lies in it."""
        inside = np.zeros(self.steps, bool)
        for span in spans:
            low, high = self._steps_of(span)
            inside[max(0, low) : max(0, high)] = True
        here = np.ones(len(self.combinations), bool)
        for name, value in window.scope.items():
            here &= self.values[name] == value
        rows: npt.NDArray[np.bool_] = inside[self.step] & here[self.combination]
        return rows

    def _steps_of(self, span: Span) -> tuple[int, int]:
        first = self.first_step * GRID_S * SECOND_NS
        grid = GRID_S * SECOND_NS
        return (span.from_ns - first) // grid, -(-(span.to_ns - first) // grid)

    def blocks(self, task: CountTask, left_out: npt.NDArray[np.bool_] | None) -> dict[Split, Block]:
        matching = np.ones(len(self.combinations), bool)
        for name, value in task.objective.scope.items():
            matching &= self.values[name] == value
        groups: dict[Split, list[int]] = {} if task.objective.split_by else {(): []}
        for at in np.flatnonzero(matching).tolist():
            groups.setdefault(tuple(self.combinations[at][name] for name in task.objective.split_by), []).append(at)
        return {split: self._block(task, at, left_out) for split, at in groups.items()}

    def _block(self, task: CountTask, combinations: list[int], left_out: npt.NDArray[np.bool_] | None) -> Block:
        base = task.cut * max(len(self.combinations), 1)
        if not combinations:
            return np.zeros((2, self.steps), np.int32)
        rows = np.concatenate([np.arange(self.edges[base + at], self.edges[base + at + 1]) for at in combinations])
        if left_out is not None:
            rows = rows[~left_out[rows]]
        bad = self.place[rows] > task.place
        counted = bad | ~self.bound[rows]
        step, requests = self.step[rows], self.requests[rows]
        return np.stack(
            [
                np.bincount(step, weights=requests * bad, minlength=self.steps),
                np.bincount(step, weights=requests * counted, minlength=self.steps),
            ]
        ).astype(np.int32)


def parts(objective: Objective, name: str, late_s: int) -> dict[str, Callable[[Block, int], Block]]:
    """The series kept for an objective, each with the function that makes it of a block of requests and its start, s.

    `name`, the definition, is the series of events. For slices the requests are kept too: `minimum` applies to them.
    `late_s`: the calendar's period begins this long after a full hour, so the rest of each hour has a series of its own.
    """
    series: dict[str, Callable[[Block, int], Block]] = {name: lambda block, from_s: sliced(block, objective)}
    if isinstance(objective.method, Timeslices):
        series[requests_of(name)] = lambda block, from_s: block
    if late_s:
        series[late_of(name, late_s)] = lambda block, from_s: _late(sliced(block, objective), from_s, late_s)
    return series


def requests_of(name: str) -> str:
    """The series of the requests in a definition's slices."""
    return f"{name}/requests"


def late_of(name: str, late_s: int) -> str:
    """The series of events from `late_s` seconds after each full hour to its end."""
    return f"{name}/after-{late_s}"


def _late(block: Block, from_s: int, late_s: int) -> Block:
    into_hour_s = (from_s + GRID_S * np.arange(block.shape[1])) % 3_600
    return np.where(into_hour_s >= late_s, block, 0).astype(np.int32)


def cut(indicator: Indicator) -> Cut | None:
    """What separates bad from good requests of an indicator; None for a histogram, which has no requests."""
    if isinstance(indicator, Histogram):
        return None
    measure, ttft_definition = _measure(indicator)
    return Cut(measure, _threshold(indicator), ttft_definition)


def _measure(indicator: Indicator) -> tuple[str, str]:
    if isinstance(indicator, Latency):
        return indicator.measure, indicator.ttft_definition if indicator.measure == "ttft" else ""
    if isinstance(indicator, Cost):
        return "cost", ""
    strict = isinstance(indicator, Availability) and indicator.count_client_errors
    return "availability_with_client_errors" if strict else "availability", ""


def _threshold(indicator: Indicator) -> tuple[float, ...]:
    if isinstance(indicator, Latency):
        return (float(indicator.threshold_ms),)
    return (float(indicator.usd_per_1k_tokens),) if isinstance(indicator, Cost) else ()


def _dimensions(
    objectives: Sequence[Objective], maintenance: Sequence[MaintenanceWindow]
) -> dict[str, frozenset[str] | None]:
    """The dimensions in use, each with the values to separate; None where an objective is split by it."""
    named: dict[str, set[str]] = {}
    scopes: list[Mapping[str, str]] = [
        *(objective.scope for objective in objectives),
        *(window.scope for window in maintenance),
    ]
    for scope in scopes:
        for name, value in scope.items():
            named.setdefault(name, set()).add(value)
    dimensions: dict[str, frozenset[str] | None] = {name: frozenset(values) for name, values in named.items()}
    return dict(sorted((dimensions | {name: None for objective in objectives for name in objective.split_by}).items()))
