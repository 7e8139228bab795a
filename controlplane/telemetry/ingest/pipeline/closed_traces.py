"""Remembers which traces were closed, in bounded memory and across restarts, so that a new trace needs no query of the store.

It uses two Bloom filters in files mapped into memory, so that they outlive a kill. Traces are added to the younger; when that is full the
older is dropped. A false positive costs one needless read of the store. There are no false negatives.
"""

import mmap
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SLACK_NS = 5 * 10**9
"""How much later than the beginning of the older filter a trace must have started to be new, because clocks differ and traces last."""

FILTER_BYTES = 8 * 2**20
_BITS_PER_TRACE = 10  # with seven probes: 0.8 % false positives when full
_PROBES = 7
_HEADER = struct.Struct("<QQ")  # since when, ns since the Unix epoch; how many traces are in it

Words = NDArray[np.uint64]
"""Trace ids, two numbers each."""


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """splitmix64's finalizer (Steele, Lea, Flood 2014): ids need not be random."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


class _Filter:
    def __init__(self, path: Path, since_ns: int, size: int) -> None:
        """Continue the file, or begin it at `since_ns`."""
        fresh = not path.exists() or path.stat().st_size != _HEADER.size + size
        with path.open("w+b" if fresh else "r+b") as file:
            if fresh:
                file.truncate(_HEADER.size + size)
            self._map = mmap.mmap(file.fileno(), _HEADER.size + size)
        self._bits: NDArray[np.uint8] = np.frombuffer(self._map, np.uint8, offset=_HEADER.size)
        if fresh:
            self._note(since_ns, 0)
        self.since_ns, self.count = _HEADER.unpack_from(self._map)

    def add(self, words: Words) -> None:
        at, bit = self._probes(words)
        np.bitwise_or.at(self._bits, at, bit)
        self._note(self.since_ns, self.count + len(words))

    def has(self, words: Words) -> NDArray[np.bool_]:
        at, bit = self._probes(words)
        known: NDArray[np.bool_] = np.all(self._bits[at] & bit, axis=1)
        return known

    def _probes(self, words: Words) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """The bytes and the bits in them of each id."""
        place = _mixed(words[:, 0] + np.uint64(0x9E3779B97F4A7C15))
        step = _mixed(words[:, 1] ^ place) | np.uint64(1)
        probes = (place[:, None] + step[:, None] * np.arange(_PROBES, dtype=np.uint64)) % np.uint64(len(self._bits) * 8)
        return (probes >> np.uint64(3)).astype(np.int64), np.uint8(1) << (probes & np.uint64(7)).astype(np.uint8)

    def close(self) -> None:
        self._bits = np.empty(0, np.uint8)  # the map cannot be closed while an array refers to it
        self._map.close()

    def _note(self, since_ns: int, count: int) -> None:
        self.since_ns, self.count = since_ns, count
        _HEADER.pack_into(self._map, 0, since_ns, count)


class ClosedTraces:
    """`since_ns` is written to new files: the time since which all closed traces are known."""

    def __init__(self, folder: Path, name: str, since_ns: int, size: int = FILTER_BYTES) -> None:
        self._young_path, self._old_path = folder / f"{name}.young", folder / f"{name}.old"
        self._size, self._capacity = size, size * 8 // _BITS_PER_TRACE
        self._old = _Filter(self._old_path, since_ns, size)
        self._young = _Filter(self._young_path, since_ns, size)

    def add(self, trace_ids: Sequence[bytes], now_ns: int) -> None:
        """Ids of 16 bytes."""
        left = _words(trace_ids)
        while len(left):
            if self._young.count >= self._capacity:
                self._old.close()
                self._young_path.replace(self._old_path)
                self._old, self._young = self._young, _Filter(self._young_path, now_ns, self._size)
            fit = self._capacity - self._young.count
            self._young.add(left[:fit])
            left = left[fit:]

    def may_know(self, trace_ids: Sequence[bytes], earliest_ns: Sequence[int]) -> list[bool]:
        """Whether the store may have spans of each trace already. `earliest_ns` is the start of its earliest span at hand."""
        words = _words(trace_ids)
        matches = self._young.has(words) | self._old.has(words)
        new_from_ns = self._old.since_ns + SLACK_NS if self._old.since_ns else 0
        return [known or at_ns < new_from_ns for known, at_ns in zip(matches.tolist(), earliest_ns, strict=True)]

    def close(self) -> None:
        self._young.close()
        self._old.close()


def _words(trace_ids: Sequence[bytes]) -> Words:
    return np.frombuffer(b"".join(trace_ids), np.uint64).reshape(-1, 2)
