"""Ctrl+K: which of the places that there are a few letters mean, the likeliest first."""

import re
from collections.abc import Iterable
from typing import NamedTuple

MAX_PLACES = 12
KINDS = (
    "trace", "view", "page", "model", "objective", "incident", "pool", "policy", "tenant", "tier", "replica", "metric", "setting",
)  # fmt: skip
"""Of places with the same name, the first is the likeliest."""
SYNONYMS: tuple[tuple[str, ...], ...] = (
    ("ttft", "time to first token", "first token"),
    ("itl", "inter token latency", "time per output token", "tpot", "time between tokens"),
    ("e2e", "end to end", "request latency", "duration"),
    ("slo", "objective", "error budget"),
    ("kv", "cache usage", "kv cache"),
    ("autoscaling", "autoscaler", "hpa", "keda", "scale", "policy"),
    ("cost", "price", "usd", "dollars", "gpus"),
    ("alert", "incident", "page", "pager"),
    ("mute", "snooze", "silence"),
)
"""Names of one thing: a word finds a place by any of them."""


class Place(NamedTuple):
    """`names`: what else people call it, beside its text and kind."""

    text: str
    kind: str
    href: str
    names: str = ""


def places_of(text: str, places: Iterable[Place]) -> list[Place]:
    """The places that have all words of `text`, or other names of theirs: those that are called so, then those whose text begins so."""
    sought = _plain(text)
    words = [meanings(sought)] if len(meanings(sought)) > 1 else [meanings(word) for word in sought.split()]
    ranked: list[tuple[int, int, int, Place]] = []
    for place in places:
        name, every = _plain(place.text), _plain(f"{place.text} {place.kind} {place.names}")
        if all(any(meant in every for meant in names) for names in words):
            unlike = 0 if name == sought else 1 if name.startswith(sought) else 2
            ranked.append((unlike, KINDS.index(place.kind), len(ranked), place))
    return [place for *_, place in sorted(ranked)][:MAX_PLACES]


def meanings(text: str) -> tuple[str, ...]:
    """The text, and what else it is called."""
    text = _plain(text)
    return (text, *(other for names in SYNONYMS if text in names for other in names if other != text))


def _plain(text: str) -> str:
    """In small letters, without what joins words: `vllm:time_to_first_token_seconds` has "time to first token"."""
    return " ".join(re.split(r"[\s_:./-]+", text.lower())).strip()
