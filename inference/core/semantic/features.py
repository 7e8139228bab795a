"""What of a text is kept to tell it from others: its words in their order, each as its kind and a keyed hash.

No text can be read from it without guessing every word under the key, which is the bucket that the text belongs to.
"""

import re
import unicodedata
from collections.abc import Iterator
from hashlib import blake2b
from itertools import pairwise

from inference.core.semantic import words

KINDS = (
    "language",
    "number",
    "negation",
    "opposite",
    "role",
    "comparative",
    "code",
    "url",
    "quote",
    "name",
    "sign",
    "word",
)
"""Of a word, in the order in which a difference is reported."""

_CODES = {kind: bytes((number,)) for number, kind in enumerate(KINDS)}
_HASH_BYTES = 7
WORD_BYTES = 1 + _HASH_BYTES

_TOKEN = re.compile(
    r"""(?P<code>```.*?```|`[^`]+`|\b\w+(?:_\w+)+\b|\b\w+\(\)|--?[A-Za-z][\w-]*)
    |(?P<url>\b[a-z]+://\S+|\bwww\.\S+|[\w.+-]+@[\w-]+\.[\w.]+|(?:[.~]{0,2}/[\w.-]+)+)
    |(?P<quote>"[^"]+"|“[^”]+”|«[^»]+»|(?<!\w)'[^']+'(?!\w))
    |(?P<number>[-+]?[$€£]?\d[\d.,:/-]*\d\s?[%°]?\w*|[-+]?[$€£]?\d\s?[%°]?\w*)
    |(?P<word>[^\W\d_][\w’'-]*)
    |(?P<sign>[^\s])""",
    re.DOTALL | re.VERBOSE,
)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?:\D|$))")
_POSSESSIVE = re.compile(r"['’]s$")
_QUIET = frozenset(".,!?;:")  # signs that end a sentence or part it
_ENDS = frozenset(".!?:")

Word = tuple[str, str]
"""Its kind, and its form."""


def read(text: str) -> list[Word]:
    """The words of a text, in one way for texts that say the same in the same words."""
    plain = " ".join(unicodedata.normalize("NFC", text).replace("’", "'").split())
    english = any(word in words.ENGLISH for word in re.findall(r"[a-z]+", plain.lower()))
    if english:
        plain = _bare(plain)
    found_words = list(_words(plain))
    if english:
        found_words = _without_articles(_in_order(found_words))
    scripts = sorted({unicodedata.name(sign, "?").partition(" ")[0] for sign in plain if sign.isalpha()})
    return [("language", "en" if english else " ".join(scripts)), *found_words]


def features(text: str, key: bytes) -> bytes:
    """`WORD_BYTES` for each word of the text."""
    return b"".join(
        _CODES[kind] + blake2b(form.encode("utf-8", "surrogatepass"), digest_size=_HASH_BYTES, key=key[:64]).digest()
        for kind, form in read(text)
    )


def content_words(text: str) -> int:
    """How many of its words say something."""
    return sum(kind not in ("language", "role", "sign") for kind, _ in read(text))


def _bare(text: str) -> str:
    """An English text without what is said around its question, and with contractions in full."""
    for pattern, full in words.FULL_FORMS:
        text = pattern.sub(full, text)
    text = words.THANKS.sub("", words.REQUEST.sub("", words.GREETING.sub("", text)))
    return words.HOW_TO.sub("how to ", text)


def _words(text: str) -> Iterator[Word]:
    begins = True  # a sentence, whose first word has a capital whatever it is
    for match in _TOKEN.finditer(text):
        kind, form = match.lastgroup or "sign", match.group()
        if kind == "sign" and form in _QUIET:
            begins = form in _ENDS
            continue
        if kind == "number":
            form = _THOUSANDS.sub("", form).replace(" ", "").rstrip(".,:/-")
        elif kind == "word":
            lower = form.lower()
            if form != lower and not (begins and form[1:] == lower[1:]) and form != "I":
                kind = "name"
            else:
                kind, form = words.KINDS.get(lower, "word"), lower
        yield kind, form
        begins = False


def _in_order(given: list[Word]) -> list[Word]:
    """`France's capital` as `capital of France`."""
    ordered = list[Word]()
    skip = False
    for (kind, form), after in pairwise([*given, ("sign", "")]):
        if skip:
            skip = False
        elif _POSSESSIVE.search(form) and after[0] == "word":
            ordered += (after, ("role", "of"), (kind, _POSSESSIVE.sub("", form)))
            skip = True
        else:
            ordered.append((kind, form))
    return ordered


def _without_articles(given: list[Word]) -> list[Word]:
    return [
        word
        for word, after in pairwise([*given, ("sign", "")])
        if not (word[0] == "word" and word[1] in words.ARTICLES and after[1] not in words.AMOUNTS)
    ]
