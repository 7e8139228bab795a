"""Prepares the prompts of a model that has a folder with its tokenizer and chat template."""

import asyncio
from typing import Literal

from inference.core.question import Prompt, Question
from inference.core.templates import conversation
from inference.core.templates.errors import ForgedTokenError
from inference.tokenizers.frames import Count, Decode
from inference.tokenizers.model_text import (
    MessagesError,
    PlainText,
    Prepared,
    Source,
    TextFailedError,
    TextUnavailableError,
)
from inference.tokenizers.tokenizer_folder import TokenizerFolder


class FolderText:
    """`before` serves until the folder has been loaded for the first time."""

    def __init__(
        self, folder: TokenizerFolder, template: Literal["auto", "chatml"], before: "PlainText | FolderText | None"
    ) -> None:
        self.folder = folder
        self.before = before
        self._template = template

    async def prepare(
        self, question: Question, *, wants_prompt: bool, enough: int, timeout_s: float, wants_ids: bool = False
    ) -> Prepared:
        if self.before is not None:
            if not self.folder.ready:
                return await self.before.prepare(
                    question, wants_prompt=wants_prompt, enough=enough, timeout_s=timeout_s, wants_ids=wants_ids
                )
            self.before = None
        wants_text = wants_prompt and question.operation == "chat"
        try:
            async with asyncio.timeout(timeout_s):
                worker = await self.folder.worker()
        except TimeoutError:
            raise TextUnavailableError(self.folder.error) from None
        async with asyncio.timeout(timeout_s):
            try:
                clean = question if wants_text else conversation.neutralised(question, worker.control)
            except ForgedTokenError as error:
                raise MessagesError(str(error)) from None
            result = await self.folder.do(Count(clean, self._template, wants_text, enough, wants_ids))
        if result.error:
            raise MessagesError(result.error)
        prompt: Prompt = result.prompt
        if wants_prompt and not wants_text:
            prompt = (question.prompt or question.input or ("",))[0]
        source: Source = "exact" if result.exact else "estimate"
        return Prepared(clean, prompt, result.tokens, source, tuple(result.ids))

    async def decode(self, ids: list[int], start: int, skip_special_tokens: bool) -> str | None:
        result = await self.folder.do(Decode(ids, start, skip_special_tokens))
        if result.error:
            raise TextFailedError(result.error)
        return result.prompt if result.exact else None
