"""Work that can wait, and plans that know it. The lane, which has the work, is a room above this one: it registers here what it has."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from controlplane.planning.inputs import plan_inputs
from forecasting.capacity.assumptions import HOUR_S, PlanInputs
from forecasting.capacity.deadlines import WORK_HOURS, OpenWork, WorkPlan, with_lines, work_plans
from forecasting.capacity.plan import Plan
from forecasting.capacity.replicas import make_plan

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
    return work_plans(plan_inputs(int(now_s) // HOUR_S * HOUR_S, WORK_HOURS), works, now_s)


class Whole(NamedTuple):
    """A plan with the replicas for `work`, which can wait."""

    plan: Plan
    work: tuple[WorkPlan, ...]


def whole_plan(inputs: PlanInputs) -> Whole:
    """With what is open now. Raises as `planned_work`, and CapacityError."""
    plan, work = make_plan(inputs), planned_work(open_work())
    return Whole(with_lines(plan, work), work)
