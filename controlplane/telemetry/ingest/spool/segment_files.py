"""The spool's files: `0000000000000001.spool`, `…2.spool`, … Numbers only grow."""

import os
from pathlib import Path

import structlog

from .frame import MAGIC, Position, TornFrameError, frames, next_frame

log = structlog.get_logger(__name__)

_SUFFIX = ".spool"
DAMAGED_FOLDER = "damaged"
"""Of the spool's folder: damaged segments, for inspection."""
MAX_DAMAGED = 8
"""Segments in it. The oldest is deleted first."""


def path_of(folder: Path, number: int) -> Path:
    return folder / f"{number:016d}{_SUFFIX}"


def numbers(folder: Path) -> list[int]:
    """The numbers of the segments that exist, ascending."""
    return sorted(int(path.stem) for path in folder.glob(f"*{_SUFFIX}") if path.stem.isdigit())


def start_of(number: int) -> Position:
    """The position of a segment's first frame."""
    return Position(number, len(MAGIC))


def sync_folder(folder: Path) -> None:
    """Make the names of files durable, not only their content."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def intact_bytes(path: Path) -> int:
    """Where the file's last intact frame ends. A frame that a kill cut short lies behind it. 0 where even the beginning is missing.

    The reader skips damage before an intact frame.
    """
    data = memoryview(path.read_bytes())
    if data[: len(MAGIC)] != MAGIC and next_frame(data, 0) is None:
        return 0
    intact = at = len(MAGIC)
    while True:
        try:
            for record in frames(data[at:], int(path.stem), at):
                intact = record.end.offset
        except TornFrameError:
            pass
        following = next_frame(data, intact)
        if following is None:
            return intact
        at = following


def set_aside(folder: Path, number: int) -> None:
    """Link the segment into `damaged/`, where it stays when the spool deletes it. An error of the disk is logged."""
    aside = folder / DAMAGED_FOLDER
    if path_of(aside, number).exists():  # another place in it is damaged too
        return
    try:
        aside.mkdir(exist_ok=True, mode=0o700)
        for old in numbers(aside)[: 1 - MAX_DAMAGED]:
            path_of(aside, old).unlink(missing_ok=True)
        os.link(path_of(folder, number), path_of(aside, number))
    except OSError as error:
        log.warning("spool.damaged_not_kept", segment=number, reason=str(error))
