"""Remembers which traces were closed, in bounded memory and across restarts: a later span amends, a new trace costs no query.

Two Bloom filters in files mapped into memory, so that they outlive a kill: the younger is added to, and when it is full the older is
forgotten. What they wrongly believe to know costs one needless read of the store; what they know is never missed.
"""

import mmap
import struct
from hashlib import blake2b
from pathlib import Path

SLACK_NS = 5 * 10**9
"""How much later than the memory's beginning a trace must have started to be surely new: clocks differ, traces last."""

FILTER_BYTES = 8 * 2**20
_BITS_PER_TRACE = 10  # with seven probes: 0.8 % false positives when full
_PROBES = 7
_HEADER = struct.Struct("<QQ")  # since when, ns since the Unix epoch; how many traces are in it
_WORDS = struct.Struct("<QQ")


class _Filter:
    def __init__(self, path: Path, since_ns: int, size: int) -> None:
        """Continue the file, or begin it at `since_ns`."""
        fresh = not path.exists() or path.stat().st_size != _HEADER.size + size
        with path.open("w+b" if fresh else "r+b") as file:
            if fresh:
                file.truncate(_HEADER.size + size)
            self._map = mmap.mmap(file.fileno(), _HEADER.size + size)
        self._bits = size * 8
        if fresh:
            self._note(since_ns, 0)
        self.since_ns, self.count = _HEADER.unpack_from(self._map)

    def add(self, probes: list[int]) -> None:
        held = self._map
        for probe in probes:
            held[_HEADER.size + (probe >> 3)] |= 1 << (probe & 7)
        self._note(self.since_ns, self.count + 1)

    def has(self, probes: list[int]) -> bool:
        held = self._map
        return all(
            held[_HEADER.size + (probe >> 3)] >> (probe & 7) & 1 for probe in probes
        )  # ends at the first that is not

    def probes(self, trace_id: bytes) -> list[int]:
        one, two = _WORDS.unpack(blake2b(trace_id, digest_size=16).digest())
        two |= 1
        return [(one + number * two) % self._bits for number in range(_PROBES)]

    def close(self) -> None:
        self._map.close()

    def _note(self, since_ns: int, count: int) -> None:
        self.since_ns, self.count = since_ns, count
        _HEADER.pack_into(self._map, 0, since_ns, count)


class Recent:
    """`since_ns` is what to write down where there are no files yet: the time since which everything closed is known."""

    def __init__(self, folder: Path, name: str, since_ns: int, size: int = FILTER_BYTES) -> None:
        self._young_path, self._old_path = folder / f"{name}.young", folder / f"{name}.old"
        self._size, self._capacity = size, size * 8 // _BITS_PER_TRACE
        self._old = _Filter(self._old_path, since_ns, size)
        self._young = _Filter(self._young_path, since_ns, size)

    def add(self, trace_id: bytes, now_ns: int) -> None:
        if self._young.count >= self._capacity:
            self._old.close()
            self._young_path.replace(self._old_path)
            self._old, self._young = self._young, _Filter(self._young_path, now_ns, self._size)
        self._young.add(self._young.probes(trace_id))

    def may_know(self, trace_id: bytes, earliest_ns: int) -> bool:
        """Whether spans of the trace may be in the store already; `earliest_ns` is when the earliest one at hand started."""
        if self._old.since_ns and earliest_ns < self._old.since_ns + SLACK_NS:
            return True
        probes = self._young.probes(trace_id)
        return self._young.has(probes) or self._old.has(probes)

    def close(self) -> None:
        self._young.close()
        self._old.close()
