"""A periodic thread outlives what fails, can be woken, and ends when it is told to."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from django.db import DatabaseError
from structlog.testing import capture_logs

from controlplane.core.periodic import PeriodicThread
from controlplane.core.seldom import Seldom
from tests.support.wait import eventually


@contextmanager
def started(thread: PeriodicThread) -> Iterator[PeriodicThread]:
    thread.start()
    try:
        yield thread
    finally:
        thread.stop()
        thread.join(120)
        assert not thread.is_alive()


@pytest.mark.parametrize(
    ("error", "level"),
    [(DatabaseError("gone"), "warning"), (OSError("away"), "warning"), (RuntimeError("any"), "error")],
)
def test_work_that_fails_is_called_again_and_said_when_it_begins_and_ends(error: Exception, level: str) -> None:
    calls = threading.Semaphore(0)
    failing = True

    def fail() -> None:
        calls.release()
        if failing:
            raise error

    with capture_logs() as logs, started(PeriodicThread("failing", fail, 0.001, (OSError,))):
        assert all(calls.acquire(timeout=120) for _ in range(3))
        failing = False
        eventually(lambda: len(logs) > 1)
        said = [(each["event"], each["log_level"]) for each in logs]
        assert said == [("thread.failed", level), ("thread.works_again", "info")]


def test_what_goes_on_to_fail_is_said_each_minute_and_what_fails_in_another_way_at_once() -> None:
    seldom, gone = Seldom(), DatabaseError("gone")
    with patch("controlplane.core.seldom.time.monotonic", side_effect=[0.0, 59.0, 60.0, 61.0, 62.0]):
        assert [seldom.fails(error) for error in (gone, gone, gone, ValueError(), gone)] == [
            True,
            False,
            True,
            True,
            True,
        ]
    assert [seldom.works(), seldom.works()] == [True, False]


def test_one_without_a_period_works_only_when_it_is_woken_and_never_misses_that() -> None:
    calls, goes_on = threading.Semaphore(0), threading.Semaphore(0)

    def work() -> None:
        calls.release()
        goes_on.acquire(timeout=120)

    with started(PeriodicThread("woken", work, None)) as thread:
        assert not calls.acquire(timeout=0.05)
        thread.wake()
        assert calls.acquire(timeout=120)
        thread.wake()  # while it works
        goes_on.release(2)
        assert calls.acquire(timeout=120)
        assert not calls.acquire(timeout=0.05)


def test_a_long_period_does_not_delay_its_end() -> None:
    called = threading.Event()
    with started(PeriodicThread("slow", called.set, 3_600.0)):
        assert called.wait(120)


def test_one_that_was_stopped_before_its_start_does_nothing() -> None:
    called = threading.Event()
    for every_s in (None, 3_600.0):
        thread = PeriodicThread("stopped", called.set, every_s)
        thread.stop()
        with started(thread):
            pass
    assert not called.is_set()
