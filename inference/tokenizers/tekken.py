"""The vocabulary that comes with the gateway: Mistral's of 131k entries, from the mistral-common wheel."""

import asyncio
import base64
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.resources import files

import msgspec
import tiktoken

from inference.core.text import parts_of

_INLINE_CHARS = 4_096  # below this, encoding takes well under a millisecond and a thread would cost more than it saves
# tiktoken releases the GIL while it encodes.
_threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="tokenizer")


class Tekken:
    """Counts as the vocabulary's own tokenizer does. A text of several parts may count a token more or less where no word
    ends near a cut.
    """

    def __init__(self, encoding: tiktoken.Encoding) -> None:
        self._encode = encoding.encode_ordinary

    def count_short(self, text: str) -> int | None:
        """The number of tokens. None if the text is too long to be counted on the event loop."""
        return len(self._encode(text)) if len(text) <= _INLINE_CHARS else None

    async def count(self, text: str, enough: int) -> int:
        """The number of tokens, counted in a thread. Counting stops once it is past `enough`."""
        return await asyncio.get_running_loop().run_in_executor(_threads, self._count, text, enough)

    def _count(self, text: str, enough: int) -> int:
        total = 0
        for part in parts_of(text):
            total += len(self._encode(part))
            if total > enough:
                break
        return total


class _Word(msgspec.Struct):
    rank: int
    token_bytes: str


class _Config(msgspec.Struct):
    pattern: str
    default_vocab_size: int
    default_num_special_tokens: int


class _File(msgspec.Struct):
    config: _Config
    vocab: list[_Word]


@cache
def load() -> Tekken:
    """The first call takes half a second."""
    raw = files("mistral_common").joinpath("data", "tekken_240911.json").read_bytes()
    tekken = msgspec.json.decode(raw, type=_File)
    size = tekken.config.default_vocab_size - tekken.config.default_num_special_tokens
    ranks = {base64.b64decode(word.token_bytes): word.rank for word in tekken.vocab[:size]}
    encoding = tiktoken.Encoding("tekken", pat_str=tekken.config.pattern, mergeable_ranks=ranks, special_tokens={})
    encoding.encode_ordinary("warm")
    return Tekken(encoding)
