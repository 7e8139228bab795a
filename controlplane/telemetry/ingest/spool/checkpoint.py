"""How far the store has everything: one small file per shard of the pipeline, replaced whole."""

import re
from pathlib import Path

import structlog

from . import segment_files
from .frame import Position

log = structlog.get_logger(__name__)

_NAME = re.compile(r"checkpoint\.(\d+)-of-(\d+)")
BOOT_FILE = "boot"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def save(folder: Path, shard: int, shards: int, position: Position) -> None:
    """Not synced: after a loss of power an older one means that some records are worked off again, and that is harmless."""
    path = folder / f"checkpoint.{shard}-of-{shards}"
    draft = path.with_name(f".{path.name}")
    draft.write_text(f"{position.segment} {position.offset}\n")
    draft.replace(path)


def load(folder: Path, shard: int, shards: int) -> Position:
    """Where this shard continues; at the oldest segment where it is not said."""
    return _sets(folder).get(shards, {}).get(shard) or _oldest(folder)


def settle(folder: Path, shards: int) -> Position:
    """Give every shard a file, before any starts; where the number of shards has changed, all begin at the least advanced.

    Where the machine was started anew since the last run, all begin at the oldest segment: the store may have lost what it
    had not yet written to disk, and the segments of the last minute are kept for that. Returns the least advanced position.
    """
    sets = _sets(folder)
    whole = [found for count, found in sets.items() if len(found) == count]
    beginning = min((min(found.values()) for found in whole), default=_oldest(folder))
    positions = sets.get(shards, {})
    boot, before = _boot_id(), _read(folder / BOOT_FILE)
    if boot and boot != before and beginning > _oldest(folder):
        log.warning(
            "spool.worked_off_again",
            since_segment=_oldest(folder).segment,
            reason="the machine was started anew: the store may not have had its last inserts on disk",
        )
        beginning, positions = _oldest(folder), {}
    if len(positions) != shards:
        positions = dict.fromkeys(range(shards), beginning)
        for shard, position in positions.items():
            save(folder, shard, shards, position)
    if boot != before:
        (folder / BOOT_FILE).write_text(boot)
    for path in folder.glob("*.*-of-*"):  # a shard's other files are named alike
        if f"-of-{shards}." not in f"{path.name}.":
            path.unlink()
    return min(positions.values())


def _oldest(folder: Path) -> Position:
    return segment_files.start_of(min(segment_files.numbers(folder), default=1))


def _boot_id() -> str:
    """Linux's id of this start of the machine; empty elsewhere."""
    return _read(_BOOT_ID)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _sets(folder: Path) -> dict[int, dict[int, Position]]:
    """Positions by shard, for each number of shards there are files of."""
    found: dict[int, dict[int, Position]] = {}
    for path in folder.glob("checkpoint.*"):
        name, words = _NAME.fullmatch(path.name), path.read_text().split()
        if name and len(words) == 2:  # a loss of power may leave an empty file
            found.setdefault(int(name[2]), {})[int(name[1])] = Position(int(words[0]), int(words[1]))
    return found
