"""Embeddings as unit vectors, stored in 16 bits a number."""

import math
import struct
from collections.abc import Sequence
from operator import mul

MAX_DIMENSIONS = 8192
CANARY = "The river rises after the rain, and the weir holds its level."
"""A text that is embedded now and then beside a request's, to see whether the embedder is still the same."""
CANARY_EVERY = 32  # embeddings


def unit(vector: bytes) -> tuple[float, ...] | None:
    """Little-endian 32-bit floats as a vector of length 1. None where it has no direction, or is not a vector."""
    if not vector or len(vector) % 4 or len(vector) > 4 * MAX_DIMENSIONS:
        return None
    numbers = struct.unpack(f"<{len(vector) // 4}f", vector)
    length = math.sqrt(sum(map(mul, numbers, numbers)))
    return tuple(number / length for number in numbers) if 0 < length < math.inf else None


def pack(vector: Sequence[float]) -> bytes:
    """In 16 bits a number."""
    return struct.pack(f"<{len(vector)}e", *vector)


def similarity(vector: Sequence[float], packed: bytes) -> float:
    """The cosine of two unit vectors, the second as it is stored; -1 where they are not of one embedder."""
    if len(packed) != 2 * len(vector):
        return -1.0
    return float(sum(map(mul, vector, struct.unpack(f"<{len(vector)}e", packed))))


class Canary:
    """When the canary goes along with an embedding of one embedder, and the vector that it had. With another one the embedder gives other
    vectors than before, though its name and version are the same.
    """

    SAME = 0.995  # the least similarity: servers differ in the last bits of a number, another model in the first

    def __init__(self) -> None:
        self._since = CANARY_EVERY
        self.known = b""

    def due(self) -> bool:
        """Whether it goes along with this embedding."""
        self._since += 1
        if self._since < CANARY_EVERY:
            return False
        self._since = 0
        return True

    def again(self) -> None:
        """The embedding failed, so the next has it."""
        self._since = CANARY_EVERY
