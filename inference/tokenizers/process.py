"""The gateway's side of a tokenizer's worker process."""

import asyncio
import os
import signal
import sys
from collections import deque
from pathlib import Path

import msgspec

import inference
from inference.contract.errors import RetryableError
from inference.core.templates.control import ControlTokens
from inference.tokenizers.frames import LENGTH, Job, Loaded, Result, frame

LOAD_TIMEOUT_S = 60.0
JOB_TIMEOUT_S = 5.0
"""After this long at one job a worker is ended. The longest prompt that is sent takes some 0.3 s."""
_AHEAD = 4  # jobs that the process has; the others wait here, where they can be dropped when their request leaves


class WorkerEndedError(RetryableError):
    """The process has ended, or was ended, before it did this job. `guilty`: because of this job, or of the files that it was
    to load.
    """

    def __init__(self, reason: str, guilty: bool) -> None:
        super().__init__(reason)
        self.guilty = guilty


class WorkerProcess:
    """Does its jobs one after the other. `ended` is set when it takes no more."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.control = ControlTokens()
        self.ended = asyncio.Event()
        self.reason = ""  # why it has ended
        self._process = process
        self._waiting: deque[tuple[Job, asyncio.Future[Result]]] = deque()
        self._under_way: deque[asyncio.Future[Result]] = deque()
        self._reading: asyncio.Task[None] | None = None
        self._overdue: asyncio.TimerHandle | None = None
        self._closing = False

    @classmethod
    async def start(cls, folder: Path) -> "WorkerProcess":
        """Start it and wait until it has loaded the folder. Raises WorkerEndedError, whose text says why it could not."""
        root = str(Path(inference.__file__).parents[1])
        kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "TZ", "LANG") if name in os.environ}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "inference.tokenizers.worker", str(folder)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,  # what it would print of a failure may have prompts in it
            # No secrets of the gateway's environment, and no threads or downloads of its own.
            env=kept
            | {"PYTHONPATH": root, "TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        )
        worker = cls(process)
        try:
            async with asyncio.timeout(LOAD_TIMEOUT_S):
                loaded = msgspec.msgpack.decode(await worker._read(), type=Loaded)
        except asyncio.CancelledError:
            await worker._end()
            raise
        except TimeoutError:
            await worker._end()
            raise WorkerEndedError(f"it was not loaded within {LOAD_TIMEOUT_S:.0f} s", False) from None
        except asyncio.IncompleteReadError:
            raise WorkerEndedError(await worker._why(), False) from None
        if loaded.error:
            await worker._end()
            raise WorkerEndedError(loaded.error, loaded.files)
        worker.control = ControlTokens(loaded.control)
        worker._reading = asyncio.get_running_loop().create_task(worker._read_all())
        return worker

    async def do(self, job: Job) -> Result:
        """Raises WorkerEndedError."""
        if self.ended.is_set():
            raise WorkerEndedError(self.reason, False)
        result: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((job, result))
        self._send()
        return await result

    def close(self) -> None:
        """Finish the jobs that it has, take no more, and end."""
        self._closing = True
        if not self._waiting and not self._under_way:
            self._stdin.close()

    async def kill(self) -> None:
        """End it at once."""
        await self._end()
        if self._reading is not None:
            await self._reading

    @property
    def _stdin(self) -> asyncio.StreamWriter:
        assert self._process.stdin is not None
        return self._process.stdin

    def _send(self) -> None:
        while self._waiting and len(self._under_way) < _AHEAD:
            job, result = self._waiting.popleft()
            if not result.done():
                self._under_way.append(result)
                self._stdin.write(frame(job))
                if len(self._under_way) == 1:
                    self._watch()

    def _watch(self) -> None:
        """Give the job that it works on its time."""
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None
        if self._under_way:
            self._overdue = asyncio.get_running_loop().call_later(JOB_TIMEOUT_S, self._stop)

    def _stop(self) -> None:
        self.reason = f"a job took longer than {JOB_TIMEOUT_S:.0f} s"
        if self._process.returncode is None:
            self._process.kill()

    async def _read(self) -> bytes:
        assert self._process.stdout is not None
        (length,) = LENGTH.unpack(await self._process.stdout.readexactly(LENGTH.size))
        return await self._process.stdout.readexactly(length)

    async def _read_all(self) -> None:
        decode = msgspec.msgpack.Decoder(Result).decode
        try:
            while True:
                result = decode(await self._read())
                waiter = self._under_way.popleft()
                if not waiter.done():
                    waiter.set_result(result)
                self._watch()
                self._send()
                if self._closing and not self._under_way:
                    self._stdin.close()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.ended.set()
            if self._overdue is not None:
                self._overdue.cancel()
            self.reason = self.reason or await self._why()
            for number, waiter in enumerate([*self._under_way, *(waiter for _, waiter in self._waiting)]):
                if not waiter.done():
                    waiter.set_exception(WorkerEndedError(self.reason, number == 0))

    async def _end(self) -> None:
        self._closing = True
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    async def _why(self) -> str:
        code = await self._process.wait()
        if code >= 0:
            return f"it ended by itself, with code {code}"
        return f"it was ended by {signal.Signals(-code).name}, as when it takes too much memory"
