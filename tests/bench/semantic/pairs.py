"""Pairs of texts of which it is known whether one answer is right for both, with their similarity and the verifier's verdict.

The similarity is lexical: hashed words and parts of words. It takes opposites for alike, as embedders do, and some that say the same for
different.
"""

import csv
import random
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

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


def of_file(path: Path) -> Iterator[Pair]:
    """The pairs of a file: two texts and 1 where they have one meaning, else 0, parted by tabs, as PAWS and QQP have them; columns
    before them, and a line of names, are passed over.
    """
    with path.open(newline="") as file:
        for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            if len(row) >= 3 and row[-1].strip() in ("0", "1"):
                yield judged(row[-3], row[-2], row[-1].strip() == "0")
