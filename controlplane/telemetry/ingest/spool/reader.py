"""Follows the spool from a position to the last committed byte."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import structlog

from . import segment_files
from .frame import HEADER_BYTES, Position, Record, TornFrameError, frames, length_at, next_frame

log = structlog.get_logger(__name__)

_BLOCK_BYTES = 64 * 1024  # skipped at once where a disk cannot be read


class Damage(NamedTuple):
    """A part that could not be read: `lost_bytes` from `at` on. 0 stands for unknown, where a segment is missing."""

    at: Position
    lost_bytes: int
    reason: str


class SpoolReader:
    """Reads records from its own position on. Any number of readers may follow one spool. Not thread-safe."""

    def __init__(
        self,
        folder: Path,
        position: Position | None = None,
        on_damage: Callable[[Damage], None] = lambda damage: None,
    ) -> None:
        """Without a position it begins at the oldest segment. `on_damage` is called once for each damaged part."""
        self._folder, self._on_damage = folder, on_damage
        self.position = position or segment_files.start_of(min(segment_files.numbers(folder), default=1))
        self._file: int | None = None
        self._open_segment = -1
        self._unread = ""  # the disk's error where it could not be read

    def read(self, frontier: Position, max_bytes: int = 4 * 2**20) -> list[Record]:
        """The next records before `frontier`, about `max_bytes` of them, or one larger record. Empty where there are none.

        Damaged parts are reported, and skipped up to the next intact record.
        """
        while self.position < frontier:
            try:
                end = frontier.offset if self.position.segment == frontier.segment else self._size()
                while self.position.offset < end:
                    try:
                        if records := self._frames(end, max_bytes):
                            return records
                        raise TornFrameError(self.position.offset, "cut short")
                    except TornFrameError as torn:
                        self._step_over(torn, end)
            except FileNotFoundError:
                self._damaged(Damage(self.position, 0, "the segment is missing"))
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
                raise TornFrameError(start, "longer than what was committed")
            data = self._pread(whole, start)
        records: list[Record] = []
        try:
            for record in frames(data, self.position.segment, start):
                records.append(record)
        except TornFrameError:
            if not records:  # otherwise the next call reports it
                raise
        if records:
            self.position = records[-1].end
        return records

    def _step_over(self, torn: TornFrameError, end: int) -> None:
        """Continue at the next intact record before `end`."""
        following = next_frame(self._pread(end - torn.offset, torn.offset), 0)
        lost = end - torn.offset if following is None else following
        reason, self._unread = "; ".join(filter(None, [str(torn), self._unread])), ""
        damage = Damage(Position(self.position.segment, torn.offset), lost, reason)
        self.position = Position(self.position.segment, torn.offset + lost)
        self._damaged(damage)

    def _damaged(self, damage: Damage) -> None:
        log.error(
            "spool.damaged",
            segment=damage.at.segment,
            offset=damage.at.offset,
            lost_bytes=damage.lost_bytes,
            reason=damage.reason,
        )
        self._on_damage(damage)

    def _pread(self, length: int, offset: int) -> bytes:
        """Reads with zeros for the blocks that the disk cannot read. Raises FileNotFoundError where the segment is missing."""
        if self._open_segment != self.position.segment:
            self.close()
            self._open_segment = -1
            self._file = os.open(segment_files.path_of(self._folder, self.position.segment), os.O_RDONLY | os.O_CLOEXEC)
            self._open_segment = self.position.segment
        assert self._file is not None
        try:
            return os.pread(self._file, length, offset)
        except OSError as error:
            if length <= _BLOCK_BYTES:
                self._unread = f"the disk cannot be read: {error.strerror}"
                return bytes(length)
        blocks = range(offset, offset + length, _BLOCK_BYTES)
        return b"".join([self._pread(min(_BLOCK_BYTES, offset + length - at), at) for at in blocks])

    def _size(self) -> int:
        return segment_files.path_of(self._folder, self.position.segment).stat().st_size

    def _next_segment(self, frontier: Position) -> None:
        here = self.position.segment
        later = [number for number in segment_files.numbers(self._folder) if here < number < frontier.segment]
        following = min(later, default=frontier.segment)
        if following > here + 1:
            self._damaged(Damage(segment_files.start_of(here + 1), 0, f"segments up to {following - 1} are missing"))
        self.position = segment_files.start_of(following)


def ages(folder: Path, done: Position, committed: Position) -> Iterator[tuple[int, Position]]:
    """For each segment between the two positions: when its first record that is not worked off was received, ns since the Unix epoch, and
    where the segment ends."""
    for number in segment_files.numbers(folder):
        begin = max(done, segment_files.start_of(number))
        end = min(committed, Position(number, segment_files.path_of(folder, number).stat().st_size))
        if begin.segment != number or begin >= end:
            continue
        reader = SpoolReader(folder, begin)
        try:
            for record in reader.read(end, HEADER_BYTES):
                yield record.received_ns, end
        finally:
            reader.close()
