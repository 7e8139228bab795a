"""Calls in processes of their own: a bad one fails alone."""

import multiprocessing
import os
import signal
from pathlib import Path
from typing import TypeVar

import pytest

from controlplane.planning.processes import CallFailedError, Processes
from tests.support.planning.calls import act, double
from tests.support.wait import eventually

T = TypeVar("T")


def nothing() -> None:
    pass


def same(argument: T) -> T:
    return argument


def outcomes(results: list[tuple[str, str | CallFailedError]]) -> dict[str, str]:
    return {argument: str(result) for argument, result in results}


def test_every_argument_has_its_result() -> None:
    processes = Processes(double, 2, 60.0, 512)
    assert dict(processes.map(range(20), same, nothing)) == {value: 2 * value for value in range(20)}


def test_a_call_that_fails_spoils_no_other(tmp_path: Path) -> None:
    note = tmp_path / "pid"

    def argument_of(call: str) -> str:
        """Far more than a pipe holds where its process has stopped before it reads."""
        if call != "stopped":
            return call
        [process] = multiprocessing.active_children()
        assert process.pid is not None
        os.kill(process.pid, signal.SIGSTOP)
        return "x" * 2**20

    calls = ["stopped", "a", "raise no good", "b", "die", "c", "allocate 4000", "d", f"start {note}", "e"]
    results = outcomes(list(Processes(act, 2, 8.0, 512).map(calls, argument_of, nothing)))
    assert results == {
        "stopped": "it took longer than 8 s",
        **{letter: letter for letter in "abcde"},
        "raise no good": "ValueError: no good",
        "die": "its process ended (SIGKILL)",
        "allocate 4000": "it needed more than 512 MiB",
        f"start {note}": "it took longer than 8 s",
    }
    started = Path("/proc", note.read_text())
    eventually(
        lambda: not started.exists() or "zombie" in (started / "status").read_text(), "what a call started ends with it"
    )


def test_whoever_polls_can_end_it_all() -> None:
    class EnoughError(Exception):
        pass

    polls = iter(range(3))

    def poll() -> None:
        if next(polls, None) is None:
            raise EnoughError

    with pytest.raises(EnoughError):
        list(Processes(act, 2, 60.0, 512).map(["hang", "hang", "hang"], same, poll))
