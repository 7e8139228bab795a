"""Prompts of a wanted length that no cache has seen."""

import random
import secrets
from functools import cache
from itertools import accumulate

_TEXT = """
river water stone light house field wind cloud road bridge tree leaf garden table paper letter morning evening winter
summer small large quiet early green blue long short warm cold open close carry follow build write read answer measure
count turn
"""
_WORDS = _TEXT.split()
_USUAL_TOKENS_PER_WORD = 1.3
_PAGE_WORDS = 1 << 16


@cache
def _page() -> tuple[str, list[int]]:
    """Words in random order, and where each begins: slices of it cost a load generator less than words drawn one by one."""
    words = random.choices(_WORDS, k=_PAGE_WORDS)  # noqa: S311  (no secret)
    return " ".join(words), [0, *accumulate(len(word) + 1 for word in words)]


class Prompts:
    """Learns from the counts that the server reports how many words make a token: first from a short prompt and a longer one."""

    def __init__(self) -> None:
        self._random = random.Random(secrets.randbits(64))  # noqa: S311  (no secret)
        self._seen: dict[int, int] = {}  # tokens by words

    def text(self, words: int) -> str:
        """The first word is unique, so that no server has its beginning in a prefix cache."""
        page, starts = _page()
        parts, left = [secrets.token_hex(4)], words - 1
        while left > 0:
            begin = self._random.randrange(_PAGE_WORDS)
            end = min(begin + left, _PAGE_WORDS)
            parts.append(page[starts[begin] : starts[end] - 1])
            left -= end - begin
        return " ".join(parts)

    def learn(self, words: int, tokens: int) -> None:
        """The server counted so many; -1 where it does not say."""
        if tokens > 0 and len(self._seen) < 2:
            self._seen[words] = tokens

    def words(self, tokens: int) -> int:
        """How many words make so many tokens."""
        if len(self._seen) == 2:
            (fewer, low), (more, high) = sorted(self._seen.items())
            per_word = max(0.5, (high - low) / (more - fewer))
            return max(1, round(fewer + (tokens - low) / per_word))
        words = max(1, round(tokens / _USUAL_TOKENS_PER_WORD))
        return words if not self._seen else max(1, words // 2)
