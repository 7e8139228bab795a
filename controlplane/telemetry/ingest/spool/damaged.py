"""Keeps segments in which something was damaged, for people to look at: `damaged/` in the spool's folder."""

import os
from pathlib import Path

import structlog

from . import segment_files

log = structlog.get_logger(__name__)

FOLDER = "damaged"
MOST_KEPT = 8
"""Segments; the oldest goes first."""


def set_aside(folder: Path, number: int) -> None:
    """Give the segment a second name, under which it stays when the spool deletes it. A disk that refuses that is said in the log."""
    aside = folder / FOLDER
    if segment_files.path_of(aside, number).exists():  # it has more than one damaged place
        return
    try:
        aside.mkdir(exist_ok=True, mode=0o700)
        for old in segment_files.numbers(aside)[: 1 - MOST_KEPT]:
            segment_files.path_of(aside, old).unlink(missing_ok=True)
        os.link(segment_files.path_of(folder, number), segment_files.path_of(aside, number))
    except OSError as error:
        log.warning("spool.damaged_not_kept", segment=number, reason=str(error))
