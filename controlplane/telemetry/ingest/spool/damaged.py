"""Keeps damaged segments for inspection, in `damaged/` in the spool's folder."""

import os
from pathlib import Path

import structlog

from . import segment_files

log = structlog.get_logger(__name__)

FOLDER = "damaged"
MAX_KEPT = 8
"""Segments. The oldest is deleted first."""


def set_aside(folder: Path, number: int) -> None:
    """Link the segment into `damaged/`, where it stays when the spool deletes it. An error of the disk is logged."""
    aside = folder / FOLDER
    if segment_files.path_of(aside, number).exists():  # another place in it is damaged too
        return
    try:
        aside.mkdir(exist_ok=True, mode=0o700)
        for old in segment_files.numbers(aside)[: 1 - MAX_KEPT]:
            segment_files.path_of(aside, old).unlink(missing_ok=True)
        os.link(segment_files.path_of(folder, number), segment_files.path_of(aside, number))
    except OSError as error:
        log.warning("spool.damaged_not_kept", segment=number, reason=str(error))
