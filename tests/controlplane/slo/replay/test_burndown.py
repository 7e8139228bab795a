"""The budget over time is of the period, also of one that begins within an hour."""

import random
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from controlplane.slo.core.objective import Calendar, Objective
from controlplane.slo.core.period import SECOND_NS
from controlplane.slo.core.sli import Availability
from controlplane.slo.core.windows import HOUR_S, BurnWindow
from controlplane.slo.evaluate import states
from controlplane.slo.evaluate.evaluator import Evaluator
from controlplane.slo.models import StoredObjective
from controlplane.slo.queries import Present, statuses
from controlplane.slo.replay.burndown import history
from controlplane.slo.save import save_objective
from controlplane.telemetry.query import answers
from controlplane.telemetry.store import Store
from tests.support.slo.ledger_rows import rows

DAY = Calendar("day", datetime(2026, 1, 1), "Asia/Kolkata")
IN_INDIA = Objective("up", "Up", Availability(), 0.9, period=DAY, windows=(BurnWindow("page", 3_600, 300, 0.02),))
NOW = datetime(2027, 1, 15, 21, 45, tzinfo=UTC)
"""In India the day is three hours and a quarter old."""


@pytest.mark.django_db
def test_what_came_in_the_hour_of_its_beginning_and_before_it_counts_not(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It did in the chart, and not in the state, from which the chart's last hour then came out wrong."""
    monkeypatch.setattr(answers, "store", lambda: store)
    now_s = int(NOW.timestamp())
    ledger = rows(random.Random(1), 4 * 60, (now_s - 4 * HOUR_S) * SECOND_NS, now_s * SECOND_NS)
    began_ns = int(datetime(2027, 1, 15, 18, 30, tzinfo=UTC).timestamp()) * SECOND_NS
    counted = [
        replace(row, status="ok" if row.entry_start_ns >= began_ns else "error", error_type="") for row in ledger
    ]
    store.writer.insert_requests(counted, 1)
    save_objective(IN_INDIA, who="olga")
    evaluator = Evaluator(store)
    evaluator.tick([IN_INDIA], [], now_s * SECOND_NS)
    while evaluator.sweep(now_s * SECOND_NS):
        pass
    states.write(evaluator.tick([IN_INDIA], [], now_s * SECOND_NS), NOW)
    row = StoredObjective.objects.get(slug="up")
    [status] = statuses(row, row.states.all(), Present(NOW, NOW))
    seen = history(status, now_s * SECOND_NS)
    of_today = [row for row in counted if row.entry_start_ns >= began_ns]
    assert status.document["total"] == len(of_today)
    assert [(point.left_share, point.bad) for point in seen.points] == [(1.0, 0)] * 4
    assert sum(point.total for point in seen.points) == len(of_today)
