"""A spool that tests write and read."""

from pathlib import Path

from controlplane.telemetry.ingest.spool.frame import Position, Record
from controlplane.telemetry.ingest.spool.reader import SpoolReader
from controlplane.telemetry.ingest.spool.writer import SpoolWriter

KIND = 1


def opened(folder: Path, **limits: int) -> SpoolWriter:
    return SpoolWriter(folder, **{"max_bytes": 2**30, "segment_bytes": 2**20, "keep_s": 0} | limits)


def append(writer: SpoolWriter, *payloads: bytes) -> None:
    """Append records. Returns when all are committed."""
    for done in [writer.append(KIND, payload) for payload in payloads]:
        done.result(120)


def read_all(
    folder: Path, frontier: Position, position: Position | None = None, max_bytes: int = 2**20
) -> list[Record]:
    reader = SpoolReader(folder, position)
    found: list[Record] = []
    while some := reader.read(frontier, max_bytes):
        found += some
    reader.close()
    return found
