"""How far the store has everything: one small file per shard of the pipeline, replaced whole."""

import re
from pathlib import Path

from . import segments
from .frame import Position

_NAME = re.compile(r"checkpoint\.(\d+)-of-(\d+)")


def save(folder: Path, shard: int, shards: int, position: Position) -> None:
    """Not synced: after a loss of power an older one means that some records are worked off again, and that is harmless."""
    path = folder / f"checkpoint.{shard}-of-{shards}"
    draft = path.with_name(f".{path.name}")
    draft.write_text(f"{position.segment} {position.offset}\n")
    draft.replace(path)


def load(folder: Path, shard: int, shards: int) -> Position:
    """Where this shard continues; at the oldest segment where it is not said."""
    return _sets(folder).get(shards, {}).get(shard) or segments.start_of(min(segments.numbers(folder), default=1))


def settle(folder: Path, shards: int) -> Position:
    """Give every shard a file, before any starts; where the number of shards has changed, all begin at the least advanced.

    Returns the least advanced position.
    """
    sets = _sets(folder)
    whole = [found for count, found in sets.items() if len(found) == count]
    beginning = min(
        (min(found.values()) for found in whole), default=segments.start_of(min(segments.numbers(folder), default=1))
    )
    positions = sets.get(shards, {})
    if len(positions) != shards:
        positions = dict.fromkeys(range(shards), beginning)
        for shard, position in positions.items():
            save(folder, shard, shards, position)
    for path in folder.glob("*.*-of-*"):  # a shard's other files are named alike
        if f"-of-{shards}." not in f"{path.name}.":
            path.unlink()
    return min(positions.values())


def _sets(folder: Path) -> dict[int, dict[int, Position]]:
    """Positions by shard, for each number of shards there are files of."""
    found: dict[int, dict[int, Position]] = {}
    for path in folder.glob("checkpoint.*"):
        name, words = _NAME.fullmatch(path.name), path.read_text().split()
        if name and len(words) == 2:  # a loss of power may leave an empty file
            found.setdefault(int(name[2]), {})[int(name[1])] = Position(int(words[0]), int(words[1]))
    return found
