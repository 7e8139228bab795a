"""A series: a metric's name with its labels, and the 64-bit id made of them."""

from collections.abc import Iterable
from hashlib import blake2b

import msgspec

Labels = tuple[tuple[str, str], ...]
"""Sorted by name, without empty values, because an empty label is an absent one."""


class Definition(msgspec.Struct, frozen=True, gc=False):
    """`kind` is `counter`, `gauge` or `unknown`. A `delta` series holds increments, any other cumulative values."""

    series: int
    metric: str
    labels: Labels
    kind: str = "unknown"
    unit: str = ""
    delta: bool = False


def labels_of(pairs: Iterable[tuple[str, str]]) -> Labels:
    return tuple(sorted([pair for pair in pairs if pair[1]]))


def identity(metric: str, labels: Labels, *, delta: bool = False) -> int:
    """The series' id: 64 bits of BLAKE2b over metric, labels and `delta`. A million series collide once in 37 million cases."""
    parts = [metric]
    for pair in labels:
        parts += pair
    text = f"{delta:d}{[len(part) for part in parts]}{''.join(parts)}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
