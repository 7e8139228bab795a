"""Work that can wait, and the plan for it. The lane, which has the work, is a room above this one: it registers here what it has."""

import time
from collections.abc import Callable, Sequence

from controlplane.planning.inputs import plan_inputs
from forecasting.capacity.assumptions import HOUR_S
from forecasting.capacity.deadlines import OpenWork, WorkPlan, work_plans

HOURS = 26
"""The longest window of a batch ends within them."""
_sources: list[Callable[[], Sequence[OpenWork]]] = []


def register(source: Callable[[], Sequence[OpenWork]]) -> None:
    """`source` says what is open. It raises DatabaseError."""
    _sources.append(source)


def open_work() -> list[OpenWork]:
    return [work for source in _sources for work in source()]


def planned_work(works: Sequence[OpenWork], now_s: float | None = None) -> tuple[WorkPlan, ...]:
    """What each pool does of it. Raises DatabaseError, and ValueError where an assumption was written without a form."""
    if not works:
        return ()
    now_s = time.time() if now_s is None else now_s
    return work_plans(plan_inputs(int(now_s) // HOUR_S * HOUR_S, HOURS), works, now_s)
