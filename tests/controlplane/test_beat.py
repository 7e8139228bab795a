"""Several workers, each with a beat: each task is sent once a period, by the one that holds the lease."""

from datetime import timedelta

import pytest
from celery.beat import ScheduleEntry
from django.utils import timezone

from controlplane.celery import app
from controlplane.core.models import Lease
from controlplane.worker.beat import LASTS, LEASE, STANDBY_S, Beat

pytestmark = pytest.mark.django_db(transaction=True)
TASKS = sorted(app.conf.beat_schedule)


class Recording(Beat):
    """Remembers what it would send; everything of it is due at once, as when a period is over."""

    def __init__(self, holder: str) -> None:
        super().__init__(app)
        self.holder, self.sent = holder, []
        self.fall_due()

    def fall_due(self) -> None:
        for entry in self.schedule.values():
            entry.last_run_at = entry.last_run_at - timedelta(hours=1)
        self._heap = None

    def apply_entry(self, entry: ScheduleEntry, producer: object = None) -> None:
        self.sent.append(entry.name)

    def round(self) -> None:
        for _ in range(len(TASKS) + 1):
            self.tick()


def test_of_two_beats_one_sends() -> None:
    first, second = Recording("first"), Recording("second")
    for _ in range(3):
        first.round()
        second.round()
        first.fall_due()
        second.fall_due()
    assert sorted(first.sent) == sorted(TASKS * 3)
    assert second.sent == []
    assert second.tick() == STANDBY_S


def test_another_takes_over_once_the_lease_of_one_that_died_has_ended() -> None:
    first, second = Recording("first"), Recording("second")
    first.round()
    second.round()
    assert second.sent == []
    Lease.objects.filter(name=LEASE).update(expires_at=timezone.now() - timedelta(seconds=1))
    second.round()
    assert sorted(second.sent) == TASKS
    first.fall_due()
    first.round()
    assert sorted(first.sent) == TASKS, "it lost the lease, and sends nothing more"


def test_a_beat_that_sends_keeps_its_lease() -> None:
    first = Recording("first")
    first.round()
    Lease.objects.filter(name=LEASE).update(expires_at=timezone.now() + timedelta(seconds=1))
    assert first.tick() <= STANDBY_S < LASTS.total_seconds()
    assert Lease.objects.get(name=LEASE).expires_at > timezone.now() + LASTS / 2


def test_tasks_are_sent_by_their_periods_though_the_clock_was_set_back() -> None:
    beat = Recording("first")
    beat.round()
    for entry in beat.schedule.values():
        entry.last_run_at += timedelta(hours=1)
    beat._heap = None
    beat.tick()
    now = timezone.now()
    assert all(entry.last_run_at <= now for entry in beat.schedule.values())
    due = {event.entry.name: event.time - now.timestamp() for event in beat._heap or ()}
    assert all(due[name] <= entry.schedule.run_every.total_seconds() for name, entry in beat.schedule.items())


def test_a_broker_that_is_away_ends_no_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise ConnectionRefusedError("no broker")

    beat = Recording("first")
    monkeypatch.setattr(Recording, "apply_entry", Beat.apply_entry)
    monkeypatch.setattr(beat, "apply_async", refuse)
    beat.round()
    assert {entry.total_run_count for entry in beat.schedule.values()} == {1}, "each is sent again at its next time"


def test_a_worker_forks_beat_before_it_starts_threads_that_hold_locks() -> None:
    """A write of SQLite that a thread is at while the process forks is locked in the fork for good."""
    ours = {step.name: step.requires for step in app.steps["worker"]}
    assert len(ours) == 4
    assert {name for name, requires in ours.items() if "celery.worker.components:Beat" not in requires} == set()
