"""A folder with a model's tokenizer, and the process that has loaded it."""

import asyncio
from pathlib import Path

import structlog

from inference.tasks import keep
from inference.tokenizers.folder import Signature, signature
from inference.tokenizers.frames import Job, Result
from inference.tokenizers.model_text import TextFailedError, TextMissingError, TextUnavailableError
from inference.tokenizers.process import WorkerEndedError, WorkerProcess

_log = structlog.get_logger()
_PAUSES_S = (0.0, 0.0, 1.0, 5.0, 30.0)
"""Before a worker is started again, by how often it has failed in a row."""
_STEADY_S = 60.0  # who worked for so long has not failed in a row


class TokenizerFolder:
    """One folder and its worker process. `error` says why its present files are not in use; empty if they are."""

    def __init__(self, folder: Path, look_s: float) -> None:
        self.error = "its tokenizer is being loaded"
        self._folder = folder
        self._look_s = look_s
        self._worker: WorkerProcess | None = None
        self._broken = False  # its files have to be changed before it can be used
        self._tried: Signature = ()
        self._failures = 0
        self._began_s = self._again_s = 0.0
        self._settled = asyncio.Event()  # there is a worker, or there cannot be one now
        self._task = keep(f"tokenizer {folder.name}", self._watch)

    @property
    def ready(self) -> bool:
        return self._worker is not None

    @property
    def settled(self) -> bool:
        """Whether it has been loaded, or cannot be."""
        return self._settled.is_set()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._worker is not None:
            await self._worker.kill()

    async def worker(self) -> WorkerProcess:
        """Waits while it is being loaded. Raises TextUnavailableError, TextMissingError."""
        await self._settled.wait()
        if self._worker is None:
            raise TextMissingError(self.error) if self._broken else TextUnavailableError(self.error)
        return self._worker

    async def do(self, job: Job) -> Result:
        """Raises TextUnavailableError, TextMissingError; TextFailedError if the worker did not survive this job."""
        while True:
            worker = await self.worker()
            try:
                return await worker.do(job)
            except WorkerEndedError as error:
                if error.guilty:
                    raise TextFailedError(str(error)) from None
                if self._worker is worker:
                    self._settled.clear()

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            worker = self._worker
            if worker is not None and worker.ended.is_set():
                self._worker = None
                self._failed(worker.reason)
            seen = await asyncio.to_thread(signature, self._folder)
            if not seen:
                self._broken = self._worker is None
                self._report(f"the tokenizers' folder has no files for {self._folder.name!r}: copy the model's into it")
                self._settled.set()
            elif seen != self._tried or (self._worker is None and loop.time() >= self._again_s):
                await self._load(seen)
            try:
                async with asyncio.timeout(self._look_s):
                    await (self._worker.ended.wait() if self._worker is not None else asyncio.sleep(self._look_s))
            except TimeoutError:
                pass

    async def _load(self, seen: Signature) -> None:
        if seen != self._tried:
            self._failures = 0
        self._tried = seen
        try:
            worker = await WorkerProcess.start(self._folder)
        except WorkerEndedError as error:
            self._broken = error.guilty or self._failures > 0  # an end without a reason has to come twice
            self._failed(str(error))
        else:
            before, self._worker, self._broken = self._worker, worker, False
            self._began_s = asyncio.get_running_loop().time()
            if before is not None:
                before.close()
            self._report("")
            self._settled.set()

    def _failed(self, reason: str) -> None:
        now_s = asyncio.get_running_loop().time()
        if self._began_s and now_s - self._began_s > _STEADY_S:
            self._failures = 0
        self._began_s = 0.0
        pause_s = _PAUSES_S[min(self._failures, len(_PAUSES_S) - 1)]
        self._failures += 1
        self._again_s = now_s + pause_s
        if self._worker is None:
            if pause_s or self._broken:
                self._settled.set()
            else:
                self._settled.clear()
        self._report(f"tokenizer {self._folder.name!r}: {reason}")

    def _report(self, error: str) -> None:
        if error == self.error:
            return
        if error:
            _log.error("tokenizer.failed", tokenizer=self._folder.name, reason=error, serving=self._worker is not None)
        else:
            _log.info("tokenizer.loaded", tokenizer=self._folder.name)
        self.error = error
