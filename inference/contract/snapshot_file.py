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
