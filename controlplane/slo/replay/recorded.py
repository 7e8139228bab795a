"""Recorded history out of the store, counted as the controller counts."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from controlplane.slo.edges import grown
from controlplane.slo.maintenance import Planned
from controlplane.slo.objective import Objective, Timeslices
from controlplane.slo.period import SECOND_NS, period_at
from controlplane.slo.plan import GRID_S, Block, Plan, Split
from controlplane.slo.replay.history import History
from controlplane.slo.sli import Histogram
from controlplane.slo.windows import HOUR_S
from controlplane.telemetry.store import Store
from controlplane.telemetry.store.types import Window

STEP_S = 60
"""What a replay judges by. The controller judges every few seconds, so a page may be up to a minute older than is told."""


def histories(
    store: Store, objective: Objective, planned: Sequence[Planned], from_s: int, to_s: int
) -> dict[Split, History]:
    """What was counted from `from_s` to `to_s`, and before it as far as windows and periods reach and requests are kept.

    By the values it is split by; without any split the key is `()`. Nothing recorded at all is a history without steps.
    Raises ValueError where a histogram cannot judge it, StoreUnavailable and StoreError.
    """
    end_s = to_s // HOUR_S * HOUR_S if _sliced(objective) else to_s // STEP_S * STEP_S
    oldest_s = _oldest(store, objective)
    if oldest_s is None or oldest_s // HOUR_S * HOUR_S >= end_s:
        return {} if objective.split_by else {(): _history(np.zeros((2, 0), np.int32), end_s, from_s)}
    # As the controller does, the hour of the oldest request kept is taken for whole.
    start_s = max(oldest_s, from_s - _lead_s(objective, from_s)) // HOUR_S * HOUR_S
    if isinstance(objective.indicator, Histogram):
        return {(): _history(grown(store, objective.indicator, start_s, end_s), start_s, from_s)}
    plan = Plan([objective], planned)
    # A slice shorter than a minute is cut on the finest grid; all else may be counted by minutes.
    step_s = GRID_S if _sliced(objective) else STEP_S
    window = Window(start_s * SECOND_NS, end_s * SECOND_NS)
    classes = store.classes(window, plan.cuts, plan.dimensions, step_s)
    classes = replace(classes, step=classes.step * (step_s // GRID_S))
    [(_, blocks)] = plan.count(classes, start_s, end_s)
    return {split: _history(block, start_s, from_s) for split, block in blocks.items()}


def _sliced(objective: Objective) -> bool:
    return isinstance(objective.method, Timeslices)


def _oldest(store: Store, objective: Objective) -> int | None:
    """When recording began, s. Histograms are asked for as far back as is needed: what is absent counts nothing."""
    if isinstance(objective.indicator, Histogram):
        return 0
    oldest_ns = store.oldest_entry()
    return None if oldest_ns is None else oldest_ns // SECOND_NS


def _lead_s(objective: Objective, from_s: int) -> int:
    period = period_at(objective.period, from_s * SECOND_NS)
    return max([from_s - period.from_ns // SECOND_NS, *(window.long_s for window in objective.windows)])


def _history(block: Block, start_s: int, from_s: int) -> History:
    bad, total = block.reshape(2, -1, STEP_S // GRID_S).sum(axis=2, dtype=np.int64)
    return History(start_s, STEP_S, bad, total, from_s)
