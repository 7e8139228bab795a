"""The process that sends a benchmark's requests (`python -m inference.benchmark`), one for each benchmark.

A process of its own, because requests must go out on time whatever else the worker does, and because its end takes all of them back
from the replica at once.
"""

import contextlib
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

import msgspec

import inference
from inference.contract.benchmark_messages import (
    Alone,
    Command,
    Ended,
    Failed,
    Load,
    Pulse,
    Ready,
    Report,
    Sample,
    Setup,
    Stop,
)

POLL_S = 0.25
SILENT_S = 30.0
"""A process that has not reported for so long hangs."""
END_S = 10.0
"""How long it may take to end. More than it takes to send its spans to a receiver that is away."""
_encode = msgspec.json.Encoder().encode
_report = msgspec.json.Decoder(Report)


class ReplicaFailedError(ValueError):
    """The replica failed, or cannot be measured. Permanent: the message says why."""


class Replica:
    """As a context: its end ends the process, and with it every request. `poll` is called every POLL_S or more often, and may raise."""

    def __init__(self, setup: Setup, poll: Callable[[], None]) -> None:
        self._setup, self._poll = setup, poll
        self._reports: queue.SimpleQueue[Report | None] = queue.SimpleQueue()
        self.kind = ""

    def __enter__(self) -> "Replica":
        root = str(Path(inference.__file__).parent.parent)
        path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        self._process = subprocess.Popen(
            (sys.executable, "-m", "inference.benchmark"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )
        threading.Thread(target=self._read, name="benchmark reports", daemon=True).start()
        try:
            self._write(self._setup)
            ready = self._next()
            assert isinstance(ready, Ready)
            self.kind = f"{ready.kind} {ready.version}".strip()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._end()

    def run(
        self,
        command: Alone | Load,
        is_over: Callable[[Sequence[Sample], float], bool] = lambda samples, now_s: False,
    ) -> tuple[list[Sample], float, bool]:
        """All requests of a load, its length in s, and whether `is_over` has ended it; that is called with what is known so far.

        Raises ReplicaFailedError.
        """
        self._write(command)
        ended: list[Sample] = []
        now_s, stopped = 0.0, False
        while True:
            match self._next():
                case Pulse() as pulse:
                    ended += pulse.ended
                    now_s = pulse.now_s
                    if not stopped and is_over([*ended, *pulse.open], now_s):
                        stopped = True
                        self._write(Stop())
                case Ended():
                    return ended, now_s, stopped

    def _next(self) -> Report:
        silent_since_s = time.monotonic()
        while True:
            self._poll()
            try:
                report = self._reports.get(timeout=POLL_S)
            except queue.Empty:
                if time.monotonic() - silent_since_s > SILENT_S:
                    raise ReplicaFailedError(
                        f"The process that sends the requests has not reported for {SILENT_S:g} s."
                    ) from None
                continue
            if isinstance(report, Failed):
                raise ReplicaFailedError(report.reason)
            if report is None:
                raise ReplicaFailedError(
                    f"The process that sends the requests has ended ({self._process.wait(5)}): see the worker's log."
                )
            return report

    def _write(self, line: Setup | Command) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # what it has said last is read next
            self._process.stdin.write(_encode(line) + b"\n")
            self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                self._reports.put(_report.decode(line))
        finally:
            self._reports.put(None)

    def _end(self) -> None:
        """At the end of its input it takes its requests back, sends their spans, by which the ledger knows them, and ends."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
