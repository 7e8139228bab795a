"""Replaces the policy snapshot's file, which `snapshot_source` reads."""

import os
from pathlib import Path

from inference.contract.snapshot import Snapshot, encode


def write(path: Path, snapshot: Snapshot) -> None:
    write_text(path, encode(snapshot))


def write_text(path: Path, text: bytes) -> None:
    """Replace the file whole: a reader sees the old text or the new one, never half of either. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")  # several processes may write it at a time
    temporary.touch(mode=0o600)
    temporary.write_bytes(text)
    temporary.replace(path)


def write_changed(path: Path, text: bytes) -> bool:
    """The same, where the file has another text or is missing, and says whether it was so: readers look at its time. Raises OSError."""
    if path.is_file() and path.read_bytes() == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
    return True
