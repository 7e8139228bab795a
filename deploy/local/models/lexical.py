"""Vectors of texts by their letters alone: counts of words and of parts of words. Lexical, not semantic: what says the same in other
words is far away, and what differs in one word is near, also where that word is what matters.
"""

import re
import zlib
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

DIMENSIONS = 256
_WORD = re.compile(r"\w+")
FREQUENT = frozenset(
    _WORD.findall(
        "a an and are as at be by can could do does for hello hey hi how i in is it me my of on or please should tell thanks that the "
        "there they this to was we what when where which who why will with would you your"
    )
)
"""Words that say little of what a text is about."""
WEIGHT_OF_FREQUENT = 0.2
PART = 3  # letters


def vector(text: str) -> npt.NDArray[np.float32]:
    """`DIMENSIONS` numbers, of length 1; the same for the same text, on any machine."""
    numbers = np.zeros(DIMENSIONS, np.float32)
    for feature, weight in _features(text).items():
        checksum = zlib.crc32(feature.encode())
        numbers[checksum % DIMENSIONS] += weight if checksum >> 31 else -weight
    length = float(np.linalg.norm(numbers))
    if not length:  # a text without a word
        numbers[0] = length = 1.0
    return numbers / np.float32(length)


def _features(text: str) -> dict[str, float]:
    weights: dict[str, float] = defaultdict(float)
    for word in _WORD.findall(text.lower()):
        weight = WEIGHT_OF_FREQUENT if word in FREQUENT else 1.0
        parts = list(_parts(word))
        weights[f" {word} "] += weight
        for part in parts:
            weights[part] += weight / len(parts)
    return weights


def _parts(word: str) -> Iterator[str]:
    """Of its beginning and its end too."""
    marked = f"<{word}>"
    for at in range(max(1, len(marked) - PART + 1)):
        yield marked[at : at + PART]
