"""Reads the age of the records that wait in the spool, once at the start."""

from collections.abc import Iterator
from pathlib import Path

from . import segment_files
from .frame import HEADER_BYTES, Position
from .reader import SpoolReader


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
