"""Says why the answer to one text must not be given for another. What it does not understand is a difference."""

from inference.core.semantic.features import KINDS, WORD_BYTES

VERSION = b"1"
"""Of features and verifier together: evidence that was gathered with another does not count."""

_ORDERED = KINDS[:-1]  # but plain words
DIFFERENCES = (*_ORDERED, "order", "word")
"""The reasons that `difference` gives. A `word` is one that nothing is known of."""


def difference(one_text: bytes, other: bytes) -> str:
    """Empty where two texts, of which `features` are given, say the same in the same words. Else why they do not: the kind of word
    in which they differ, `order` where both have the same words.
    """
    if one_text == other:
        return ""
    if not one_text or not other or len(one_text) % WORD_BYTES or len(other) % WORD_BYTES:
        return "language"  # of another layout
    ours, theirs = _split(one_text), _split(other)
    for code, kind in enumerate(_ORDERED):
        if [word for word in ours if word[0] == code] != [word for word in theirs if word[0] == code]:
            return kind
    return "order" if sorted(ours) == sorted(theirs) else "word"


def _split(words: bytes) -> list[bytes]:
    return [words[at : at + WORD_BYTES] for at in range(0, len(words), WORD_BYTES)]
