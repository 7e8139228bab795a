"""The tokenizers of the models in force. A model's folder may come, change or go while the gateway runs: its files are looked
at each second, a new version takes over once it has been loaded, and one that cannot be loaded leaves the version before.
"""

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path

from inference.contract.snapshot import TOKENIZERS, Fault, Model
from inference.tokenizers import tekken
from inference.tokenizers.folder_text import FolderText
from inference.tokenizers.model_text import (
    ModelText,
    PlainText,
)
from inference.tokenizers.tokenizer_folder import TokenizerFolder

LOOK_S = 1.0
LINGER_S = 30.0

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
        needed = {folder for text in self._texts.values() for folder in _folders(text)}
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


def _folders(text: Text | None) -> Iterator[TokenizerFolder]:
    """The folders that a text needs."""
    while isinstance(text, FolderText):
        yield text.folder
        text = text.before
