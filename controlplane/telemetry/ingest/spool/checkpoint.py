"""Checkpoints: the position before which everything is in the store, in one small file per shard."""

import re
from pathlib import Path

import structlog

from . import segment_files
from .frame import Position

log = structlog.get_logger(__name__)

_NAME = re.compile(r"checkpoint\.(\d+)-of-(\d+)")
BOOT_FILE = "boot"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")  # of Linux; other systems have none


def save(folder: Path, shard: int, shards: int, position: Position) -> None:
    """Replace the shard's file, without a sync: an older checkpoint after a loss of power only repeats some records."""
    path = folder / f"checkpoint.{shard}-of-{shards}"
    draft = path.with_name(f".{path.name}")
    draft.write_text(f"{position.segment} {position.offset}\n")
    draft.replace(path)


def load(folder: Path, shard: int, shards: int) -> Position:
    """Where this shard continues: at the oldest segment where it has no checkpoint."""
    return _sets(folder).get(shards, {}).get(shard) or _oldest(folder)


def settle(folder: Path, shards: int) -> Position:
    """Give every shard a file before any starts. Where the number of shards has changed, all begin at the least advanced position.

    After a reboot all begin at the oldest segment: the store may have lost what it had not written to disk, and the segments of the last
    minute are kept for that. Returns the least advanced position.
    """
    sets = _sets(folder)
    complete = [positions for count, positions in sets.items() if len(positions) == count]
    beginning = min((min(positions.values()) for positions in complete), default=_oldest(folder))
    positions = sets.get(shards, {})
    boot, before = _read(_BOOT_ID), _read(folder / BOOT_FILE)
    if boot and boot != before and beginning > _oldest(folder):
        log.warning(
            "spool.repeated",
            since_segment=_oldest(folder).segment,
            reason="the machine was rebooted: the store may not have had its last inserts on disk",
        )
        beginning, positions = _oldest(folder), {}
    if len(positions) != shards:
        positions = dict.fromkeys(range(shards), beginning)
        for shard, position in positions.items():
            save(folder, shard, shards, position)
    if boot != before:
        (folder / BOOT_FILE).write_text(boot)
    for path in folder.glob("*.*-of-*"):  # a shard's other files have the same ending
        if f"-of-{shards}." not in f"{path.name}.":
            path.unlink()
    return min(positions.values())


def _oldest(folder: Path) -> Position:
    return segment_files.start_of(min(segment_files.numbers(folder), default=1))


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _sets(folder: Path) -> dict[int, dict[int, Position]]:
    """Positions by shard, for each number of shards that has files."""
    positions: dict[int, dict[int, Position]] = {}
    for path in folder.glob("checkpoint.*"):
        name, words = _NAME.fullmatch(path.name), path.read_text().split()
        if name and len(words) == 2:  # a loss of power may leave an empty file
            positions.setdefault(int(name[2]), {})[int(name[1])] = Position(int(words[0]), int(words[1]))
    return positions
