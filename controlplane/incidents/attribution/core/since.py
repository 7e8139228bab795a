"""Finds the first bad minute of an alert."""

from collections.abc import Sequence

from controlplane.slo.core.burn import error_budget
from controlplane.telemetry.core.objective_counts import CountedStep

FORGIVEN = 3  # steps in a row within budget that do not end the trouble
MIN_BAD = 2  # in a run's first step: a single bad request is no beginning
MIN_OF_WORST = 0.1  # of the worst step's share of bad requests: a few failures before an outage are not its beginning


def since_ns(steps: Sequence[CountedStep], target: float, step_ns: int) -> int | None:
    """The start of the step from which the share of bad requests has been above the budget up to the last step.

    Up to FORGIVEN steps in a row within the budget, or without requests, do not end the run. It begins with a step that is at least
    MIN_OF_WORST as bad as its worst one. None where the last steps are within budget.
    """
    budget = error_budget(target)
    burning = [step for step in steps if step.total and step.bad / step.total > budget]
    if not burning or not steps or steps[-1].start_ns - burning[-1].start_ns > FORGIVEN * step_ns:
        return None
    first = len(burning) - 1
    while first and burning[first].start_ns - burning[first - 1].start_ns <= (FORGIVEN + 1) * step_ns:
        first -= 1
    least = MIN_OF_WORST * max(step.bad / step.total for step in burning[first:])
    while first < len(burning) - 1 and (
        burning[first].bad < MIN_BAD or burning[first].bad / burning[first].total < least
    ):
        first += 1
    return burning[first].start_ns
