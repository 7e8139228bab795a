"""Runs the processes beside the receiver, starts them again when they die, and talks to them through pipes."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Callable, Mapping

import structlog

from controlplane.core.backoff import doubled_s

log = structlog.get_logger(__name__)

_FIRST_WAIT_S, _MAX_WAIT_S = 0.2, 5.0
_STEADY_S = 30.0  # a child that ran this long is started again at once
_LINE_BYTES = 2**20
_OFTEN, _OFTEN_S = 3, 60.0


class Child:
    """A module run as a process. `line` is called with each line that it prints, `started` after each start.

    A child that `reads_input` ends by itself when its input ends. Another one is asked to by a signal.
    """

    def __init__(
        self,
        name: str,
        command: Callable[[], list[str]],
        *,
        line: Callable[[bytes], None],
        environment: Mapping[str, str] | None = None,
        started: Callable[[], None] = lambda: None,
        reads_input: bool = True,
    ) -> None:
        self.name, self._command, self._line, self._started = name, command, line, started
        self._environment = dict(environment or {})
        self._reads_input = reads_input
        self._process: Process | None = None
        self.restarts = 0
        self.started_s = time.monotonic()  # of the last start
        self._ended: deque[float] = deque(maxlen=_OFTEN)

    @property
    def keeps_ending(self) -> bool:
        """Whether it has ended several times within the last minute."""
        return len(self._ended) == _OFTEN and time.monotonic() - self._ended[0] < _OFTEN_S

    def kill(self) -> None:
        """Send SIGKILL, the only signal that ends a process that hangs. It is started again as after any other end."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def run(self) -> None:
        """Keep it running until cancelled, and then stop it."""
        failures = 1
        try:
            while True:
                began = time.monotonic()
                code = await self._live()
                self._ended.append(time.monotonic())
                failures = 1 if time.monotonic() - began > _STEADY_S else failures + 1
                wait_s = doubled_s(_FIRST_WAIT_S, failures, _MAX_WAIT_S)
                log.error("child.died", child=self.name, code=code, restart_in_s=wait_s)
                await asyncio.sleep(wait_s)
                self.restarts += 1
        finally:
            await asyncio.shield(self._stop())

    def send(self, text: bytes) -> bool:
        """Write to its standard input. False where it does not run or has not read the previous text yet."""
        pipe = self._process and self._process.stdin
        if not pipe or pipe.is_closing() or pipe.transport.get_write_buffer_size():
            return False
        pipe.write(text)
        return True

    async def _live(self) -> int:
        self.started_s = time.monotonic()
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "controlplane.telemetry.process.child",
            str(os.getpid()),
            *self._command(),
            stdin=PIPE,
            stdout=PIPE,
            limit=_LINE_BYTES,
            env={**os.environ, **self._environment},
        )
        self._started()
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            try:
                self._line(line)
            except Exception:
                log.exception("child.line_rejected", child=self.name, bytes=len(line))
        return await self._process.wait()

    async def _stop(self) -> None:
        """Close its input if it reads that, then send SIGTERM, then SIGKILL, each with a timeout."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        if process.stdin is not None:
            process.stdin.close()
        for number, timeout_s in ((None, 3.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
            if number is None and not self._reads_input:
                continue
            with contextlib.suppress(ProcessLookupError):
                if number is not None:
                    process.send_signal(number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await process.wait()
                    return
