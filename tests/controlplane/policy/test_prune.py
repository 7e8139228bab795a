"""Old decisions go; what is younger, or still under way, stays."""

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone
from pytest_django import Settings

from controlplane.celery import app
from controlplane.policy import tasks
from controlplane.policy.models import Action, DecisionChange, DecisionRecord
from controlplane.worker.schedule import SCHEDULE

pytestmark = pytest.mark.django_db

LIMIT = datetime(2026, 6, 1, tzinfo=UTC)
OLD, YOUNG = LIMIT - timedelta(days=1), LIMIT + timedelta(days=1)


def _record(at: datetime) -> DecisionRecord:
    row = DecisionRecord.objects.create(at=at, version=1, holder="a", generation=1, packed=DecisionRecord.pack(b"{}"))
    DecisionChange.objects.create(decision=row, at=at, kind="scale", pool="chat", reason="more traffic")
    return row


def _action(record: DecisionRecord, ended_at: datetime | None) -> Action:
    at = record.at
    common = {"generation": 1, "started_at": at, "step_at": at, "deadline_at": at, "ended_at": ended_at}
    return Action.objects.create(decision=record, cluster="east", pool="chat", kind="up", before=1, after=2, **common)


def test_old_records_go_with_their_changes_and_actions() -> None:
    _action(_record(OLD), OLD)
    young = _record(YOUNG)
    assert tasks.prune(LIMIT) == 2
    assert list(DecisionRecord.objects.all()) == [young]
    assert [change.decision for change in DecisionChange.objects.all()] == [young]
    assert not Action.objects.exists()


@pytest.mark.parametrize("ended_at", [None, YOUNG])
def test_the_record_of_an_action_that_is_kept_stays(ended_at: datetime | None) -> None:
    action = _action(_record(OLD), ended_at)
    assert tasks.prune(LIMIT) == 0
    assert Action.objects.get().decision == action.decision
    assert DecisionChange.objects.count() == 1


def test_no_more_go_at_once_than_is_said_the_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "AT_ONCE", 2)
    for days in (3, 1, 2):
        _record(LIMIT - timedelta(days=days))
    assert tasks.prune(LIMIT) == 2
    assert DecisionRecord.objects.get().at == LIMIT - timedelta(days=1)


def test_the_worker_prunes_after_the_days_of_the_setting(settings: Settings) -> None:
    settings.CONFIG = settings.CONFIG.model_copy(update={"decisions_days": 10})
    _record(timezone.now() - timedelta(days=11))
    kept = _record(timezone.now() - timedelta(days=9))
    app.loader.import_default_modules()
    app.tasks[SCHEDULE["prune-decisions"]["task"]]()
    assert list(DecisionRecord.objects.all()) == [kept]
    assert tasks.prune_decisions.name == SCHEDULE["prune-decisions"]["task"]
