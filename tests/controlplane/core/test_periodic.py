"""A periodic thread outlives what fails, can be woken, and ends when it is told to."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import DatabaseError

from controlplane.core.periodic import PeriodicThread


@contextmanager
def started(thread: PeriodicThread) -> Iterator[PeriodicThread]:
    thread.start()
    try:
        yield thread
    finally:
        thread.stop()
        thread.join(120)
        assert not thread.is_alive()


@pytest.mark.parametrize("error", [DatabaseError("gone"), RuntimeError("anything")])
def test_work_that_fails_is_called_again(error: Exception) -> None:
    calls = threading.Semaphore(0)

    def fail() -> None:
        calls.release()
        raise error

    with started(PeriodicThread("failing", fail, 0.001)):
        assert all(calls.acquire(timeout=120) for _ in range(3))


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
