"""Counts a prompt's tokens: for limits, for usage, and for the model's own schedule. Vocabularies come with installed
packages, and nothing is fetched at run time.
"""

import asyncio
import base64
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files

import msgspec
import tiktoken

_INLINE_CHARS = 4_096  # below this, encoding takes well under a millisecond and a thread would cost more than it saves
_PART_CHARS = 100_000
_CUT_WITHIN_CHARS = 1_000
_between_words = re.compile(r"(?<=\w) (?=[^\W\d_])")
# tiktoken releases the GIL while it encodes.
_threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="tokenizer")


class Tokenizer:
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


def parts_of(text: str) -> Iterator[str]:
    """The text, cut between words. A run of a million spaces in one part would overflow tiktoken's stack."""
    start = 0
    while len(text) - start > _PART_CHARS:
        end = start + _PART_CHARS
        for cut in _between_words.finditer(text, end - _CUT_WITHIN_CHARS, end):
            end = cut.start()
            break
        yield text[start:end]
        start = end
    yield text[start:]


class _Word(msgspec.Struct):
    rank: int
    token_bytes: str


class _TekkenConfig(msgspec.Struct):
    pattern: str
    default_vocab_size: int
    default_num_special_tokens: int


class _Tekken(msgspec.Struct):
    config: _TekkenConfig
    vocab: list[_Word]


def _tekken() -> Tokenizer:
    """Mistral's byte-pair vocabulary of 131k entries, from the mistral-common wheel."""
    raw = files("mistral_common").joinpath("data", "tekken_240911.json").read_bytes()
    tekken = msgspec.json.decode(raw, type=_Tekken)
    size = tekken.config.default_vocab_size - tekken.config.default_num_special_tokens
    ranks = {base64.b64decode(word.token_bytes): word.rank for word in tekken.vocab[:size]}
    encoding = tiktoken.Encoding("tekken", pat_str=tekken.config.pattern, mergeable_ranks=ranks, special_tokens={})
    encoding.encode_ordinary("warm")
    return Tokenizer(encoding)


_known: dict[str, Callable[[], Tokenizer]] = {"tekken": _tekken}
_loaded: dict[str, Tokenizer] = {}


def load(name: str) -> Tokenizer:
    """One of `snapshot.TOKENIZERS`. The first call of each takes half a second."""
    if name not in _loaded:
        _loaded[name] = _known[name]()
    return _loaded[name]
