"""The spool's files: `0000000000000001.spool`, `…2.spool`, …; numbers only grow."""

import os
from pathlib import Path

from .frame import MAGIC, Position, Torn, frames

_SUFFIX = ".spool"
_READ_BYTES = 4 * 2**20


def path_of(folder: Path, number: int) -> Path:
    return folder / f"{number:016d}{_SUFFIX}"


def numbers(folder: Path) -> list[int]:
    """The numbers of the segments that exist, ascending."""
    return sorted(int(path.stem) for path in folder.glob(f"*{_SUFFIX}") if path.stem.isdigit())


def start_of(number: int) -> Position:
    """Where the first frame of a segment is."""
    return Position(number, len(MAGIC))


def sync_folder(folder: Path) -> None:
    """Make files' names durable, not just what is in them."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def intact_bytes(path: Path) -> int:
    """How far the file holds intact frames: what a kill tore off lies behind. 0 where even the beginning is missing."""
    number = int(path.stem)
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            return 0
        at, rest = len(MAGIC), b""
        while chunk := file.read(_READ_BYTES):
            rest += chunk
            end = at
            try:
                for record in frames(rest, number, at):
                    end = record.end.offset
            except Torn as torn:
                return torn.offset
            rest, at = rest[end - at :], end
        return at
