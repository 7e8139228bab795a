"""The vocabulary that comes with the gateway: Mistral's of 131k entries, from the mistral-common wheel."""

import asyncio
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.resources import files
from itertools import chain

import msgspec
import tiktoken

from inference.core.text import parts_of

_INLINE_CHARS = 4_096  # below this, encoding takes well under a millisecond and a thread would cost more than it saves
_CALL_CHARS = 64  # that many take as long as the call itself
# tiktoken releases the GIL while it encodes.
_threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="tokenizer")


class Tekken:
    """Counts as the vocabulary's own tokenizer does. A text of several parts may count a token more or less where no word
    ends near a cut.
    """

    def __init__(self, encoding: tiktoken.Encoding) -> None:
        self._encode = encoding.encode_ordinary

    def count_short(self, texts: Sequence[str]) -> int | None:
        """The number of tokens. None if the texts are too long, or too many, to be counted on the event loop."""
        if _CALL_CHARS * (len(texts) - 1) + sum(map(len, texts)) > _INLINE_CHARS:
            return None
        return sum(len(self._encode(text)) for text in texts)

    async def count(self, texts: Iterable[str], enough: int) -> int:
        """The number of tokens, counted in a thread. Counting stops once it is past `enough`."""
        return await asyncio.get_running_loop().run_in_executor(_threads, self._count, texts, enough)

    def _count(self, texts: Iterable[str], enough: int) -> int:
        total = 0
        for part in chain.from_iterable(map(parts_of, texts)):
            total += len(self._encode(part))
            if total > enough:
                break
        return total


class _Word(msgspec.Struct):
    rank: int
    token_bytes: bytes  # base64, which msgspec reads


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
    ranks = {word.token_bytes: word.rank for word in tekken.vocab[:size]}
    encoding = tiktoken.Encoding("tekken", pat_str=tekken.config.pattern, mergeable_ranks=ranks, special_tokens={})
    encoding.encode_ordinary("warm")
    return Tekken(encoding)
