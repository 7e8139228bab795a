"""Prepares the prompts of a model that has a folder with its tokenizer and chat template."""

import asyncio
from typing import Literal

from inference.core.question import Prompt, Question
from inference.core.templates import conversation
from inference.core.templates.errors import ForgedTokenError
from inference.tokenizers.frames import Job
from inference.tokenizers.model_text import MessagesError, PlainText, Prepared, TextUnavailableError
from inference.tokenizers.tokenizer_folder import TokenizerFolder


class FolderText:
    """`before` serves until the folder has been loaded for the first time."""

    def __init__(
        self, folder: TokenizerFolder, template: Literal["auto", "chatml"], before: "PlainText | FolderText | None"
    ) -> None:
        self.folder = folder
        self.before = before
        self._template = template

    async def prepare(self, question: Question, *, wants_prompt: bool, enough: int, timeout_s: float) -> Prepared:
        if self.before is not None:
            if not self.folder.ready:
                return await self.before.prepare(
                    question, wants_prompt=wants_prompt, enough=enough, timeout_s=timeout_s
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
            result = await self.folder.do(Job(clean, self._template, wants_text, enough))
        if result.error:
            raise MessagesError(result.error)
        prompt: Prompt = result.prompt
        if wants_prompt and not wants_text:
            prompt = (question.prompt or question.input or ("",))[0]
        return Prepared(clean, prompt, result.tokens, "exact" if result.exact else "estimate")
