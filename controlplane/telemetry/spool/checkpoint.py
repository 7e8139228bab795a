"""How far the store has everything: one small file per shard of the pipeline, replaced whole."""

from pathlib import Path

from .frame import Position

_PREFIX = "checkpoint."


def save(folder: Path, shard: int, shards: int, position: Position) -> None:
    """Not synced: after a loss of power an older one means that some records are worked off again, which changes nothing."""
    path = folder / f"{_PREFIX}{shard}-of-{shards}"
    draft = path.with_name(f".{path.name}")
    draft.write_text(f"{position.segment} {position.offset}\n")
    draft.replace(path)


def load(folder: Path, shard: int, shards: int) -> Position | None:
    """This shard's own, or, where the number of shards has changed since, the least advanced of the earlier ones."""
    own = folder / f"{_PREFIX}{shard}-of-{shards}"
    if own.exists():
        return _parse(own)
    return min((_parse(path) for path in folder.glob(f"{_PREFIX}*")), default=None)


def settle(folder: Path, shards: int) -> Position | None:
    """Give every shard a file of its own and drop those of an earlier number of shards; the least advanced position.

    Call it before shards start. None where nothing has been worked off yet.
    """
    found = {shard: load(folder, shard, shards) for shard in range(shards)}
    for shard, position in found.items():
        if position is not None:
            save(folder, shard, shards, position)
    for path in folder.glob(f"{_PREFIX}*"):
        if not path.name.endswith(f"-of-{shards}"):
            path.unlink()
    known = [position for position in found.values() if position is not None]
    return min(known) if len(known) == shards else None


def _parse(path: Path) -> Position:
    segment, offset = path.read_text().split()
    return Position(int(segment), int(offset))
