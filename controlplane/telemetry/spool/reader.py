"""Follows the spool from a position to the last committed byte."""

import os
from pathlib import Path

import structlog

from . import segments
from .frame import HEADER_BYTES, Position, Record, Torn, frames, length_at

log = structlog.get_logger(__name__)


class SpoolReader:
    """Any number may follow one spool; each keeps its own position. Not thread-safe."""

    def __init__(self, folder: Path, position: Position | None = None) -> None:
        """Without a position it begins at the oldest segment there is."""
        self._folder = folder
        self.position = position or segments.start_of(min(segments.numbers(folder), default=1))
        self._file: int | None = None
        self._open_segment = -1

    def read(self, frontier: Position, max_bytes: int = 4 * 2**20) -> list[Record]:
        """The next records before `frontier`, about `max_bytes` of them, or one larger than that; empty where there are none.

        A segment that is gone, or damaged in its middle, is left for the next one, and said so.
        """
        while self.position < frontier:
            end = frontier.offset if self.position.segment == frontier.segment else self._size()
            if self.position.offset < end:
                try:
                    if found := self._frames(end, max_bytes):
                        return found
                    raise Torn(self.position.offset, "cut short")
                except Torn as torn:
                    log.exception(
                        "spool.damaged", segment=self.position.segment, offset=torn.offset, lost_bytes=end - torn.offset
                    )
            if self.position.segment == frontier.segment:
                self.position = frontier
            else:
                self._next_segment(frontier)
        return []

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _frames(self, end: int, max_bytes: int) -> list[Record]:
        start = self.position.offset
        data = self._pread(min(max_bytes, end - start), start)
        if len(data) >= HEADER_BYTES and (whole := length_at(data, 0)) > len(data):
            if start + whole > end:
                raise Torn(start, "longer than what was committed")
            data = self._pread(whole, start)
        found: list[Record] = []
        try:
            for record in frames(data, self.position.segment, start):
                found.append(record)
        except Torn:
            if not found:  # else give what is before it; the next call meets it first
                raise
        if found:
            self.position = found[-1].end
        return found

    def _pread(self, length: int, offset: int) -> bytes:
        if self._open_segment != self.position.segment:
            self.close()
            self._file = os.open(segments.path_of(self._folder, self.position.segment), os.O_RDONLY | os.O_CLOEXEC)
            self._open_segment = self.position.segment
        assert self._file is not None
        return os.pread(self._file, length, offset)

    def _size(self) -> int:
        try:
            return segments.path_of(self._folder, self.position.segment).stat().st_size
        except FileNotFoundError:
            log.exception("spool.segment_missing", segment=self.position.segment)
            return 0

    def _next_segment(self, frontier: Position) -> None:
        later = [number for number in segments.numbers(self._folder) if number > self.position.segment]
        self.position = segments.start_of(min(later)) if later else frontier
