"""What the lane wants of a place for bytes: whole objects, results in segments, and events of streams.

An object is written under a key of its own, and there for good before a row of the database refers to it. So no order of kills leaves a row
without its bytes, and what no row refers to is removed later (`store/files.py`). Any number of processes may share the place.
"""

import hashlib
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO, NamedTuple, TypeVar

T = TypeVar("T")

NAMES = 500  # at a time
GRACE_S = 3_600.0
"""How long an object may lie without a row that refers to it: longer than any chore takes."""
_KEY = re.compile(r"[0-9a-f]{32}")


class AwayError(OSError):
    """Retryable: the place cannot be reached, or does not do what it is asked."""


class CutOffError(FileNotFoundError):
    """Permanent: an object is there, and what is wanted of it is not."""


class Draft(ABC):
    """An object that is being written."""

    def __init__(self, out: BinaryIO, key: str) -> None:
        self.size, self.key = 0, key
        self._ends, self._last = 0, b"\n"
        self.referred = False
        self._out, self._digest = out, hashlib.sha256()

    def write(self, data: bytes) -> None:
        self.size += self._out.write(data)
        self._digest.update(data)
        self._ends, self._last = self._ends + data.count(b"\n"), data[-1:] or self._last

    @property
    def lines(self) -> int:
        return self._ends + (self._last != b"\n")

    @property
    def sha256(self) -> str:
        """Hex, of what was written."""
        return self._digest.hexdigest()

    @abstractmethod
    def synchronise(self) -> None:
        """Have it there for good, also after a loss of power. Raises OSError."""

    def refer(self) -> str:
        """Its key, for a row of the database: from then on it stays, whether the row is committed or not."""
        self.referred = True
        return self.key


class Place(NamedTuple):
    """Where results begin."""

    segment: int
    offset: int


class Segments(ABC):
    """Those of one batch."""

    @abstractmethod
    def fetch(self, segments: Collection[int]) -> None:
        """They are read next, those that are there. Raises OSError."""

    @abstractmethod
    def read(self, segment: int, offset: int, length: int) -> bytes:
        """Of one that was fetched. Raises FileNotFoundError where it is not there whole, OSError."""


class Objects(ABC):
    is_near = True
    """Whether reading a line takes no longer than a disk does."""

    @abstractmethod
    def draft(self) -> AbstractContextManager[Draft]:
        """A new object. What no row was to refer to is removed at the block's end."""

    @abstractmethod
    def open(self, key: str) -> AbstractContextManager[BinaryIO]:
        """All of it. Raises FileNotFoundError, OSError."""

    @abstractmethod
    def parts(self, key: str) -> Iterator[bytes]:
        """All of it, some at a time. Raises FileNotFoundError, OSError."""

    @abstractmethod
    def read(self, key: str, offset: int, length: int) -> bytes:
        """Raises FileNotFoundError, OSError where it is not there whole."""

    @abstractmethod
    def remove(self, key: str) -> None: ...

    @abstractmethod
    def append(self, batch: int, worker: int, data: bytes) -> Place:
        """Write results of the worker, for good. What a write that failed has left is never read."""

    @abstractmethod
    def segments(self, batch: int) -> AbstractContextManager[Segments]: ...

    @abstractmethod
    def result(self, batch: int, segment: int, offset: int, length: int) -> bytes:
        """Of a single line. Raises OSError where it is not there whole."""

    @abstractmethod
    def write_events(self, batch: int, attempt: int, offset: int, data: bytes) -> None:
        """At this place, whether they were there or not, and for good."""

    @abstractmethod
    def read_events(self, batch: int, attempt: int, begin: int, end: int) -> bytes:
        """Raises OSError where they are not there whole."""

    @abstractmethod
    def remove_segments(self, batch: int) -> None:
        """And events."""

    @abstractmethod
    def old(self) -> Iterator[list[str]]:
        """Keys of objects that have been there for GRACE_S, some at a time."""

    @abstractmethod
    def batches(self) -> Iterator[list[int]]:
        """Those with segments or events, some at a time."""


def new_key() -> str:
    return secrets.token_hex(16)


def is_key(name: str) -> bool:
    """Others lie there too: NFS keeps a file that is removed while it is read, as `.nfs…`."""
    return _KEY.fullmatch(name) is not None


def checked(key: str) -> str:
    """Raises ValueError of what is no key, and so might lead anywhere."""
    if not is_key(key):
        raise ValueError(f"{key!r} is not the key of an object")
    return key


def read_whole(file: BinaryIO, offset: int, length: int) -> bytes:
    """Raises CutOffError, OSError."""
    file.seek(offset)
    return whole(file.read(length), length)


def whole(data: bytes, length: int) -> bytes:
    """Raises CutOffError where it is shorter."""
    if len(data) != length:
        raise CutOffError(f"an object of the lane is cut off: {len(data)} of {length} bytes are there")
    return data


def some(names: list[T]) -> Iterator[list[T]]:
    for begin in range(0, len(names), NAMES):
        yield names[begin : begin + NAMES]
