"""A command as a plain value, and the running process. The supervisor and the tests start everything through these two."""

import contextlib
import http.client
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from deploy.local import tether

ROOT = Path(__file__).resolve().parents[2]
"""The project's folder: every part's working directory."""


def _nothing() -> None:
    """The default clean-up."""


@dataclass(frozen=True, slots=True)
class Command:
    """How to start a part, and how to probe it."""

    name: str
    argv: tuple[str, ...]
    ready: Callable[[], bool] = lambda: True  # a quick probe; OSError means that it is not ready
    env: Mapping[str, str] = field(default_factory=dict)  # over this process's own
    clean_up: Callable[[], None] = _nothing  # after its end, however it ended: removes leftovers
    start_s: float = 60.0  # how long it may take until it is ready
    answers: Callable[[], object] | None = (
        None  # a probe while it runs: any answer counts, and OSError means that none came
    )


class NotReadyError(RuntimeError):
    """Permanent: a part ended, or did not answer in time. The message has the end of its log."""


class Managed:
    """One part as a process, in a process group of its own, with its output in `log`. It ends when this process ends.

    Start it from the main thread: the kernel ends it with the thread that started it.
    """

    def __init__(self, command: Command, log: Path | IO[bytes]) -> None:
        self.command = command
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError(f"{self.command.name} has not been started")
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """As subprocess has it: negative for a signal. None while it runs, or before its start."""
        return None if self._process is None else self._process.poll()

    def start(self) -> "Managed":
        output = self.log.open("ab") if isinstance(self.log, Path) else self.log
        try:
            self._process = subprocess.Popen(
                (sys.executable, "-I", "-S", tether.__file__, str(os.getpid()), *self.command.argv),
                env={**os.environ, **self.command.env},
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        finally:
            if isinstance(self.log, Path):
                output.close()
        return self

    def is_ready(self) -> bool:
        """Whether it is ready now."""
        try:
            return self.alive and self.command.ready()
        except (OSError, http.client.HTTPException):
            return False

    def wait_ready(self, timeout_s: float | None = None) -> "Managed":
        """Return once it is ready. Raises NotReadyError when it ends first, or is not ready within `timeout_s` (default: `start_s`)."""
        limit_s = self.command.start_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + limit_s
        while not self.is_ready():
            if not self.alive:
                raise NotReadyError(f"{self.command.name} ended with {self.exit_code} at its start\n{self.log_tail()}")
            if time.monotonic() > deadline:
                self.stop()
                raise NotReadyError(f"{self.command.name} did not answer within {limit_s:.0f} s\n{self.log_tail()}")
            time.sleep(0.02)
        return self

    def kill(self) -> None:
        """Kill it and its children with SIGKILL."""
        self._signal_group(signal.SIGKILL)
        self._reap()

    def terminate(self) -> None:
        """Send SIGTERM, and do not wait."""
        if self.alive:
            self._signal_one(signal.SIGTERM)

    def stop(self, grace_s: float = 10.0) -> None:
        """Send SIGTERM, and after `grace_s` SIGKILL. Its children end too."""
        self.terminate()
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(grace_s)
        self.kill()

    def log_tail(self, lines: int = 20) -> str:
        if not isinstance(self.log, Path) or not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _signal_one(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def _signal_group(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def _reap(self) -> None:
        if self._process is not None:
            self._process.wait()
        self.command.clean_up()


def http_ok(port: int, path: str, *, tls: bool = False) -> bool:
    """Whether a GET there is answered with 200."""
    return http_status(port, path, timeout_s=1.0, tls=tls) == http.HTTPStatus.OK


def http_status(port: int, path: str, host: str = "127.0.0.1", timeout_s: float = 5.0, *, tls: bool = False) -> int:
    """The status of the answer to a GET. Raises OSError when there is none in time. A certificate is not checked: what
    answers is a part on this machine, and nothing is sent to it.
    """
    connection = (
        http.client.HTTPSConnection(host, port, timeout=timeout_s, context=ssl._create_unverified_context())  # noqa: S323
        if tls
        else http.client.HTTPConnection(host, port, timeout=timeout_s)
    )
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()
