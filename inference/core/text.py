"""Cuts long texts for tokenizers."""

import re
from collections.abc import Iterator

_PART_CHARS = 100_000
_CUT_WITHIN_CHARS = 1_000
_between_words = re.compile(r"(?<=\w) (?=[^\W\d_])")


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
