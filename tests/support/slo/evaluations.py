"""A tick's evaluations held to the ledger row by row, and an evaluator that has counted all history."""

from collections.abc import Sequence

from controlplane.slo.core.burn import judge
from controlplane.slo.core.counts import Counts
from controlplane.slo.core.evaluation import Evaluation
from controlplane.slo.core.maintenance_windows import MaintenanceWindow
from controlplane.slo.core.objective import Objective, Rolling
from controlplane.slo.core.sli import Availability
from controlplane.slo.core.windows import DAY_S, HOUR_S, lengths_s
from controlplane.slo.evaluate.evaluator import Evaluator
from controlplane.telemetry.ledger.row import LedgerRow
from tests.support.slo.judging import is_good

NS = 10**9
NOW_S = 500_000 * HOUR_S + 1_234
UP = Objective("up", "", Availability(), 0.9)


def grid_s(length_s: int) -> int:
    return 10 if length_s <= 6 * HOUR_S else 60 if length_s <= 3 * DAY_S else HOUR_S


def direct(ledger: Sequence[LedgerRow], evaluation: Evaluation, length_s: int, now_s: int = NOW_S) -> Counts:
    """Counted row by row, between the edges that the window has on its grid."""
    grid, alert = grid_s(length_s), evaluation.alert
    end_s = (now_s // grid + 1) * grid
    judged = [
        is_good(alert.objective.indicator, row)
        for row in ledger
        if end_s - length_s <= row.entry_start_ns / NS < end_s
        and all(getattr(row, name) == value for name, value in alert.scope.items())
    ]
    return Counts(judged.count(False), judged.count(False) + judged.count(True))


def assert_equals_the_ledger(found: Sequence[Evaluation], ledger: Sequence[LedgerRow], now_s: int = NOW_S) -> None:
    assert found
    for one in found:
        objective = one.alert.objective
        counts = {length: direct(ledger, one, length, now_s) for length in lengths_s(objective.windows)}
        period_s = (one.period.to_ns - one.period.from_ns) // NS
        assert list(one.alert.verdicts) == judge(counts, objective.target, period_s, objective.windows)
        if isinstance(objective.period, Rolling):
            assert one.counts == direct(ledger, one, period_s, now_s)
        else:
            since = [row for row in ledger if row.entry_start_ns >= one.period.from_ns]
            assert one.counts == direct(since, one, 400 * DAY_S, now_s)


def swept(evaluator: Evaluator, now_s: int = NOW_S) -> Evaluator:
    while evaluator.sweep(now_s * NS):
        pass
    return evaluator


def evaluated(
    evaluator: Evaluator, objectives: Sequence[Objective], planned: Sequence[MaintenanceWindow] = (), now_s: int = NOW_S
) -> Sequence[Evaluation]:
    """What a tick finds once all history is counted."""
    evaluator.tick(objectives, planned, now_s * NS)
    swept(evaluator, now_s)
    return evaluator.tick(objectives, planned, now_s * NS)
