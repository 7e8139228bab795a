"""The spool's format on disk. This module does no input or output.

A segment is MAGIC and then frames. A frame is a header (`<IIQB`: length of the payload, CRC-32 of all that follows the CRC,
time of receipt in ns since the Unix epoch, kind) and the payload: a request in protobuf, decompressed.
"""

import re
import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple
from zlib import crc32

MAGIC = b"WEIRSPL1"
_HEADER = struct.Struct("<IIQB")
HEADER_BYTES = _HEADER.size
_UNCHECKED = 8  # length and CRC themselves
_LIKELY = re.compile(rb"(?=[\x14-\x3f][\x01\x03])")
"""The last two bytes of a header: the time's highest byte (the years 2015 to 2113) and the kind."""
_LIKELY_AT = HEADER_BYTES - 2
_MAX_CHECKED = 8  # times the data's length: how much is checksummed at most in search of a frame


class Kind(IntEnum):
    """The kind of a payload. The numbers are on disk: never reuse one."""

    TRACES = 1
    SAMPLES = 3  # metrics, as `metrics.batch` encodes them


class Position(NamedTuple):
    """A place in the spool: segment number and byte offset in it. Positions compare in order of writing."""

    segment: int
    offset: int


class Record(NamedTuple):
    """One payload. Its frame lies from `start` to `end`, where a reader continues."""

    kind: int
    received_ns: int
    payload: bytes
    start: Position
    end: Position


class TornFrameError(Exception):
    """The bytes at `offset` are not a complete, intact frame; permanent."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"no intact frame at byte {offset}: {reason}")
        self.offset = offset


def header(kind: int, received_ns: int, payload: bytes) -> bytes:
    """The bytes before `payload`, which are written separately so that a large body is never copied."""
    checked = _HEADER.pack(0, 0, received_ns, kind)[_UNCHECKED:]
    return _HEADER.pack(len(payload), crc32(payload, crc32(checked)), received_ns, kind)


def frame_bytes(payload: bytes) -> int:
    return HEADER_BYTES + len(payload)


def length_at(data: bytes | memoryview, at: int) -> int:
    """The length of the frame that starts at `at`, bytes. Its header must be complete."""
    return HEADER_BYTES + int.from_bytes(data[at : at + 4], "little")


def frames(data: bytes | memoryview, segment: int, base: int) -> Iterator[Record]:
    """The complete frames in `data`, which begins at byte `base` of the segment. A last frame that is cut short is ignored.

    Raises TornFrameError at a frame that has its full length but does not match its checksum.
    """
    view = memoryview(data)
    at = 0
    while len(view) - at >= HEADER_BYTES:
        length, crc, received_ns, kind = _HEADER.unpack_from(view, at)
        end = at + HEADER_BYTES + length
        if end > len(view):
            return
        if crc32(view[at + _UNCHECKED : end]) != crc:
            raise TornFrameError(base + at, "checksum does not match")
        payload = bytes(view[at + HEADER_BYTES : end])
        yield Record(kind, received_ns, payload, Position(segment, base + at), Position(segment, base + end))
        at = end


def next_frame(data: bytes | memoryview, start: int) -> int | None:
    """Where in `data`, from byte `start` on, the next intact frame begins. None where there is none.

    A frame is recognised by its checksum. A frame that a sender has put into a payload is taken for a record as well, which does no harm:
    the sender could have sent it.
    """
    view = memoryview(data)
    left = _MAX_CHECKED * len(view)
    for match in _LIKELY.finditer(view, start + _LIKELY_AT):
        at = match.start() - _LIKELY_AT
        length, crc, _, _ = _HEADER.unpack_from(view, at)
        end = at + HEADER_BYTES + length
        if end > len(view):
            continue
        left -= length
        if left < 0:
            return None
        if crc32(view[at + _UNCHECKED : end]) == crc:
            return at
    return None
