"""What a request's prompt needs before a model gets it: its number of tokens, its text where the server does not make it,
and messages without control tokens of clients where the server does.
"""

import asyncio
from typing import Literal, NamedTuple, Protocol

import msgspec

from inference.contract.errors import PermanentError, RetryableError
from inference.core.passing.request import Passed
from inference.core.question import Part, Prompt, Question
from inference.core.templates import chatml, conversation
from inference.core.templates.control import GENERIC
from inference.core.templates.errors import ForgedTokenError
from inference.tokenizers.tekken import Tekken

Source = Literal["exact", "server", "estimate"]
"""Where a number of tokens is from: the model's own tokenizer, the server's count route, or bytes / 4."""
_LONG_CHARS = 16 << 10
_NO_IDS = "its servers take token ids, and the model's own tokenizer is being loaded"
BYTES_PER_TOKEN = 4
"""As llm-d estimates (`pkg/epp/framework/plugins/requestcontrol/dataproducer/tokenizer/README.md`)."""


class MessagesError(PermanentError, ValueError):
    """The messages cannot be laid out for the model. The message is for the client."""


class TextMissingError(PermanentError):
    """The files of the model's tokenizer cannot be used."""


class TextUnavailableError(RetryableError):
    """The model's tokenizer is being loaded."""


class TextFailedError(PermanentError):
    """The model's tokenizer or template did not survive this request."""


UNCOUNTED = (MessagesError, TextUnavailableError, TextMissingError, TextFailedError, TimeoutError)
"""What `ModelText.prepare` raises."""


class Prepared(NamedTuple):
    """`question` is what the server gets, and `prompt` the text that was made of it, or the client's token ids; empty where it was not
    wanted. `ids` are the token ids of the prompt, where these were.
    """

    question: Question | Passed
    prompt: Prompt
    tokens: int
    source: Source
    ids: tuple[int, ...] = ()


class ModelText(Protocol):
    async def prepare(
        self, question: Question, *, wants_prompt: bool, enough: int, timeout_s: float, wants_ids: bool = False
    ) -> Prepared:
        """Counting may stop past `enough` tokens. Raises UNCOUNTED."""

    async def decode(self, ids: list[int], start: int, skip_special_tokens: bool) -> str | None:
        """The text of an answer's token ids from `start` on; None where it does not end with a whole character. Raises
        TextUnavailableError, TextMissingError, TextFailedError.
        """


class PlainText:
    """For a model without files of its own: laid out as ChatML, counted by `tekken`, or by its bytes if that is None."""

    def __init__(self, tekken: Tekken | None) -> None:
        self._tekken = tekken

    async def prepare(
        self, question: Question, *, wants_prompt: bool, enough: int, timeout_s: float, wants_ids: bool = False
    ) -> Prepared:
        if wants_ids:
            raise TextUnavailableError(_NO_IDS)
        if wants_prompt and question.tools and question.tool_choice != "none":
            raise MessagesError("`tools` need a chat template: name the folder of the model's tokenizer in the fleet")
        try:
            if _size(question) > _LONG_CHARS:  # other requests go on meanwhile
                clean = await asyncio.to_thread(conversation.neutralised, question, GENERIC)
            else:
                clean = conversation.neutralised(question, GENERIC)
        except ForgedTokenError as error:
            raise MessagesError(str(error)) from None
        prompts = _prompts(clean)
        prompt: Prompt = prompts[0] if wants_prompt and prompts else ""
        if self._tekken is None:
            tools = len(msgspec.json.encode(clean.tools)) if clean.tools else 0
            size = sum(
                len(text.encode("utf-8", "replace")) if isinstance(text, str) else BYTES_PER_TOKEN * len(text)
                for text in prompts
            )
            return Prepared(clean, prompt, -(-(size + tools) // BYTES_PER_TOKEN), "estimate")
        texts = [text for text in prompts if isinstance(text, str)]
        tokens = self._tekken.count_short(texts)
        if tokens is None:
            async with asyncio.timeout(timeout_s):
                tokens = await self._tekken.count(texts, enough)
        tokens += sum(len(ids) for ids in prompts if not isinstance(ids, str))
        return Prepared(clean, prompt, tokens, "exact" if wants_prompt else "estimate")

    async def decode(self, ids: list[int], start: int, skip_special_tokens: bool) -> str | None:
        raise TextUnavailableError(_NO_IDS)


def _size(question: Question) -> int:
    """Characters of its texts and numbers of its token ids."""
    contents = [message.content for message in question.messages] + [*question.prompt, *question.input]
    texts = (
        part.text or ""
        for content in contents
        if isinstance(content, tuple)
        for part in content
        if isinstance(part, Part)
    )
    return sum(len(content) for content in contents if content) + sum(map(len, texts))


def _prompts(question: Question) -> tuple[Prompt, ...]:
    if question.operation == "chat":
        return (chatml.render(question.messages),)
    return question.prompt or question.input
