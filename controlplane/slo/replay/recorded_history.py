"""Reads recorded history from the store, counted as the controller counts."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from controlplane.slo.bucket_edges import grown
from controlplane.slo.core.count_plan import GRID_S, Block, CountPlan, Split
from controlplane.slo.core.maintenance_windows import MaintenanceWindow
from controlplane.slo.core.objective import Objective, Timeslices
from controlplane.slo.core.period import SECOND_NS, period_at
from controlplane.slo.core.sli import Histogram
from controlplane.slo.core.windows import HOUR_S, lengths_s
from controlplane.slo.replay.core.history import History
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.store import Store

STEP_S = 60
"""The step of a replay, s, where windows and slices are whole minutes; else GRID_S. The controller judges every few seconds, so a
page may have begun up to a step earlier."""


def histories(
    store: Store, objective: Objective, maintenance: Sequence[MaintenanceWindow], from_s: int, to_s: int
) -> dict[Split, History]:
    """The counts from `from_s` to `to_s`, and before it as far as windows and periods reach and requests are kept.

    By value of the split; without a split the key is `()`. Without any request the history has no steps.
    Raises ValueError where a histogram cannot judge it, StoreUnavailableError and StoreError.
    """
    step_s = step_of(objective)
    end_s = to_s // step_s * step_s
    oldest_s = _oldest(store, objective)
    if oldest_s is None or oldest_s // HOUR_S * HOUR_S >= end_s:
        return {} if objective.split_by else {(): _history(objective, np.zeros((2, 0), np.int32), from_s, from_s, None)}
    start_s = max(oldest_s, from_s - _lead_s(objective, from_s)) // HOUR_S * HOUR_S
    recorded_s = None if isinstance(objective.indicator, Histogram) else oldest_s
    if isinstance(objective.indicator, Histogram):
        block = grown(store, objective.indicator, start_s, end_s).block
        return {(): _history(objective, block, start_s, from_s, recorded_s)}
    plan = CountPlan([objective], maintenance)
    window = Window(start_s * SECOND_NS, end_s * SECOND_NS)
    classes = store.objectives.classes(window, plan.cuts, plan.dimensions, step_s)
    classes = replace(classes, step=classes.step * (step_s // GRID_S))
    blocks = plan.counting(classes, start_s, end_s).requests(plan.tasks[0])
    return {split: _history(objective, block, start_s, from_s, recorded_s) for split, block in blocks.items()}


def step_of(objective: Objective) -> int:
    """The length of a step, s."""
    lengths = lengths_s(objective.windows)
    lengths += [objective.method.slice_s] if isinstance(objective.method, Timeslices) else []
    return GRID_S if any(length % STEP_S for length in lengths) else STEP_S


def _oldest(store: Store, objective: Objective) -> int | None:
    """When the first request was recorded, s. Histograms are read as far back as needed: missing samples count nothing."""
    if isinstance(objective.indicator, Histogram):
        return 0
    oldest_ns = store.objectives.oldest_entry()
    return None if oldest_ns is None else oldest_ns // SECOND_NS


def _lead_s(objective: Objective, from_s: int) -> int:
    period = period_at(objective.period, from_s * SECOND_NS)
    return max([from_s - period.from_ns // SECOND_NS, *map(objective.counted_s, lengths_s(objective.windows))])


def _history(objective: Objective, block: Block, start_s: int, from_s: int, recorded_s: int | None) -> History:
    step_s = step_of(objective)
    start_s = start_s // HOUR_S * HOUR_S
    slices = objective.method if isinstance(objective.method, Timeslices) else None
    bad, total = block.reshape(2, -1, step_s // GRID_S).sum(axis=2, dtype=np.int64)
    return History(start_s, step_s, bad, total, from_s, recorded_s, slices)
