"""The tokenizers of the models in force. A model's folder may come, change or go while the gateway runs: its files are looked
at each second, a new version takes over once it has been loaded, and one that cannot be loaded leaves the version before.
"""

import asyncio
from collections.abc import Iterable
from pathlib import Path

import structlog

from inference.contract.snapshot import TOKENIZERS, Fault, Model
from inference.tasks import keep
from inference.tokenizers import tekken
from inference.tokenizers.folder import Signature, signature
from inference.tokenizers.folder_text import FolderText
from inference.tokenizers.frames import Job, Result
from inference.tokenizers.model_text import (
    ModelText,
    PlainText,
    TextFailedError,
    TextMissingError,
    TextUnavailableError,
)
from inference.tokenizers.process import WorkerEndedError, WorkerProcess

_log = structlog.get_logger()
LOOK_S = 1.0
LINGER_S = 30.0
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


Text = PlainText | FolderText


class Tokenizers:
    """`folder` has a folder per tokenizer, and is looked at every `look_s`. What no model needs any more is kept for
    `linger_s`, for requests that began before.
    """

    def __init__(self, folder: Path, look_s: float = LOOK_S, linger_s: float = LINGER_S) -> None:
        self._folder = folder
        self._look_s, self._linger_s = look_s, linger_s
        self._warm = False
        self._folders: dict[str, TokenizerFolder] = {}
        self._models: dict[str, str] = {}  # name of the folder by that of the model
        self._texts: dict[str, Text] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def swap(self, models: Iterable[Model]) -> dict[str, ModelText]:
        """What the models need, by their names. Folders that no model needs any more are let go.

        A model whose new folder is not loaded keeps the text that it had until then.
        """
        models = list(models)
        self._models = {model.name: model.tokenizer for model in models if model.tokenizer not in TOKENIZERS}
        for name in self._models.values():
            if name not in self._folders:
                self._folders[name] = TokenizerFolder(self._folder / name, self._look_s)
        self._texts = {model.name: self._text(model) for model in models}
        needed = {folder for text in self._texts.values() for folder in text.folders()}
        for name, folder in list(self._folders.items()):
            if folder not in needed:
                del self._folders[name]
                task = asyncio.get_running_loop().create_task(self._let_go(folder))
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)
        return dict(self._texts)

    def _text(self, model: Model) -> Text:
        if model.tokenizer in TOKENIZERS:
            return PlainText(tekken.load() if model.tokenizer == "tekken" else None)
        folder = self._folders[model.tokenizer]
        before = None if folder.ready else self._texts.get(model.name)
        if isinstance(before, FolderText) and before.folder is folder:
            before = before.before
        return FolderText(folder, model.template, before)

    async def _let_go(self, folder: TokenizerFolder) -> None:
        try:
            await asyncio.sleep(self._linger_s)
        finally:
            await folder.close()

    @property
    def warm(self) -> bool:
        """Whether all tokenizers of the first snapshot have been loaded, or cannot be. Later ones are not waited for."""
        if not self._warm:
            self._warm = all(folder.settled for folder in self._folders.values())
        return self._warm

    def faults(self) -> list[Fault]:
        """The models whose tokenizer is not in use, or not in its present version."""
        return [
            Fault("model", model, error) for model, name in self._models.items() if (error := self._folders[name].error)
        ]

    async def close(self) -> None:
        for folder in self._folders.values():
            await folder.close()
        for task in self._closing:
            task.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)
