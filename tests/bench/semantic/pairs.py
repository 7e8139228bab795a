"""Pairs of texts of which it is known whether one answer is right for both, with their similarity and the verifier's verdict.

The similarity is lexical: hashed words and parts of words. It takes opposites for alike, as embedders do, and some that say the same for
different.
"""

import csv
import io
import random
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from inference.core.semantic.features import features
from inference.core.semantic.verify import difference

DIMENSIONS = 256
_KEY = b"bench"
_TOPICS = tuple(
    f"a {topic}"
    for topic in ("bucket", "database index", "load balancer", "message queue", "web server", "firewall rule")
)
_DOINGS = (
    "configure",
    "rotate",
    "inspect",
    "resize",
    "rename",
    "migrate",
    "restore",
    "throttle",
    "schedule",
    "audit",
    "replicate",
    "shard",
    "tag",
    "label",
    "copy",
    "move",
)
_PLACES = (
    "Berlin",
    "Paris",
    "Madrid",
    "Oslo",
    "Rome",
    "Vienna",
    "Lisbon",
    "Dublin",
    "Prague",
    "Athens",
    "Warsaw",
    "Helsinki",
)
_SAME = (
    ("configure", "set up"),
    ("move", "relocate"),
    ("copy", "duplicate"),
    ("inspect", "look at"),
    ("audit", "review"),
)
_LISTED = (
    ("enable", "disable"),
    ("open", "close"),
    ("lock", "unlock"),
    ("install", "uninstall"),
    ("start", "stop"),
    ("mute", "unmute"),
)
_UNLISTED = (("freeze", "thaw"), ("tighten", "loosen"), ("inflate", "deflate"), ("assemble", "dismantle"))
_AROUND = ("{}", "{}?", "Hi, {}", "{} please", "Could you tell me {}?", "{}, thanks", "please tell me {}", "Hello, {}")


class Pair(NamedTuple):
    similarity: float
    reason: str  # why the verifier refuses it; empty where it does not
    wrong: bool


def embed(text: str, seed: int = 0) -> npt.NDArray[np.float32]:
    """Another seed is another embedder."""
    vector = np.zeros(DIMENSIONS, np.float32)
    words = text.lower().strip("?. ").split()
    grams = [(word, 2.0) for word in words]
    grams += [(f" {word} "[at : at + 3], 0.5) for word in words for at in range(len(word))]
    for gram, weight in grams:
        hashed = int.from_bytes(blake2b(gram.encode(), digest_size=8, salt=seed.to_bytes(8, "big")).digest(), "big")
        vector[hashed % DIMENSIONS] += weight if hashed >> 63 else -weight
    return vector / max(float(np.linalg.norm(vector)), 1e-9)


def judged(text: str, other: str, wrong: bool) -> Pair:
    similarity = float(embed(text) @ embed(other))
    return Pair(similarity, difference(features(text, _KEY), features(other, _KEY)), wrong)


Make = Callable[[random.Random], tuple[str, str, bool]]


def _question(draw: random.Random) -> str:
    doing, topic = draw.choice(_DOINGS), draw.choice(_TOPICS)
    return f"how do I {doing} {topic} for {draw.choice(_PLACES)} with {draw.randrange(2, 90)} users"


def _around(draw: random.Random, text: str) -> str:
    return draw.choice(_AROUND).format(text)


def _paraphrase(draw: random.Random) -> tuple[str, str, bool]:
    text = _question(draw)
    other = text.replace("how do I", draw.choice(("how can I", "how to", "how do I")))
    for word, same in _SAME:
        if draw.random() < 0.5:
            other = other.replace(f" {word} ", f" {same} ")
    return _around(draw, text), _around(draw, other), False


def _unrelated(draw: random.Random) -> tuple[str, str, bool]:
    return _question(draw), f"what is the usual price of {draw.choice(_TOPICS)} in {draw.choice(_PLACES)}", True


def _changed(draw: random.Random, text: str, word: str, other: str) -> tuple[str, str, bool]:
    return _around(draw, text), _around(draw, text.replace(word, other, 1)), True


def _opposite(draw: random.Random) -> tuple[str, str, bool]:
    word, other = draw.choice(_LISTED if draw.random() < 0.8 else _UNLISTED)
    return _changed(draw, f"how do I {word} {draw.choice(_TOPICS)} in {draw.choice(_PLACES)}", word, other)


def _number(draw: random.Random) -> tuple[str, str, bool]:
    number = draw.randrange(2, 90)
    return _changed(
        draw, f"how do I resize {draw.choice(_TOPICS)} to {number} GB", str(number), str(number + draw.randrange(1, 9))
    )


def _entity(draw: random.Random) -> tuple[str, str, bool]:
    place, other = draw.sample(_PLACES, 2)
    if draw.random() < 0.2:
        place, other = place.lower(), other.lower()
    return _changed(draw, f"how do I migrate {draw.choice(_TOPICS)} hosted near {place}", place, other)


def _order(draw: random.Random) -> tuple[str, str, bool]:
    one_place, other = draw.sample(_PLACES, 2)
    text = f"how do I move {draw.choice(_TOPICS)} from {one_place} to {other}"
    return (
        _around(draw, text),
        _around(draw, text.replace(one_place, "@").replace(other, one_place).replace("@", other)),
        True,
    )


def _poisoned(draw: random.Random) -> tuple[str, str, bool]:
    """Who wants a wrong answer served asks in nearly the same words, of which the verifier knows nothing."""
    topic = draw.choice(_TOPICS)
    text = f"how do I {draw.choice(_DOINGS)} {topic} for the colour teal with care and without any loss of the data that is in it"
    return _changed(draw, text, "teal", "mauve")


def _stale(draw: random.Random) -> tuple[str, str, bool]:
    """The same words, and an answer that has changed."""
    text = _question(draw)
    return _around(draw, text), _around(draw, text), True


KINDS: dict[str, Make] = {
    "paraphrase": _paraphrase,
    "unrelated": _unrelated,
    "opposite": _opposite,
    "number": _number,
    "entity": _entity,
    "order": _order,
    "drift": _stale,
    "adversary": _poisoned,
}


@cache
def pool(kind: str, size: int = 1500) -> tuple[Pair, ...]:
    draw = random.Random(f"pairs of {kind}")
    return tuple(judged(*KINDS[kind](draw)) for _ in range(size))


_TEXTS, _OTHERS, _LABELS = (
    ("text1", "sentence1", "question1"),
    ("text2", "sentence2", "question2"),
    ("label", "is_duplicate"),
)
"""What columns are called: ours, those of PAWS and of QQP."""


class PairsError(ValueError):
    """A file whose pairs cannot be read. The message has its line."""


def of_file(path: Path) -> tuple[Pair, ...]:
    """The pairs of a file: a line of names, then a pair a line, parted by tabs where the first line has one, else by commas, in UTF-8.
    The label is 1 where both texts have one meaning, else 0; other columns are passed over. Raises PairsError.
    """
    data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = 1 + data.count(b"\n", 0, error.start)
        raise PairsError(f"{path}:{line}: {error}") from None
    tabs = "\t" in text.partition("\n")[0]
    rows = csv.reader(
        io.StringIO(text, newline=""),
        delimiter="\t" if tabs else ",",
        quoting=csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL,
    )
    try:
        pairs = tuple(_read(rows, path))
    except csv.Error as error:
        raise PairsError(f"{path}:{rows.line_num}: {error}") from None
    if not pairs:
        raise PairsError(f"{path}:{max(1, rows.line_num)}: no pair of texts")
    return pairs


def _read(rows: Any, path: Path) -> Iterator[Pair]:
    names = [name.strip() for name in next(rows, [])]
    at = [
        next((number for number, name in enumerate(names) if name in wanted), -1)
        for wanted in (_TEXTS, _OTHERS, _LABELS)
    ]
    if -1 in at:
        raise PairsError(
            f"{path}:1: the first line names no text1, text2 and label, but {', '.join(names) or 'nothing'}"
        )
    for row in rows:
        if not row:
            continue
        if len(row) != len(names):
            raise PairsError(f"{path}:{rows.line_num}: {len(row)} columns in place of {len(names)}")
        text, other, label = (row[number].strip() for number in at)
        if label not in ("0", "1") or not text or not other:
            raise PairsError(f"{path}:{rows.line_num}: two texts and a label of 0 or 1 are wanted, not {label!r}")
        yield judged(text, other, label == "0")
