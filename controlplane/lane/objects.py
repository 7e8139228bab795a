"""Bytes of files and of results, in a folder: whole objects, and segments that one worker alone appends to.

A whole object is written beside its place, synchronised, and renamed: it is there whole or not at all. What nothing refers to any more is
removed later (`sweep`), so no order of kills leaves a row without its bytes.
"""

import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_NAMES = 500  # of old objects at a time
_NAME = re.compile(r"file-[0-9a-f]{32}")
GRACE_S = 3_600.0
"""How long an object may lie without a row that refers to it: longer than any chore takes."""


class Draft:
    """An object that is being written."""

    def __init__(self, path: Path, out: BinaryIO, objects: "Objects") -> None:
        self.size = 0
        self._digest = hashlib.sha256()
        self._path, self._out, self._objects = path, out, objects

    def write(self, data: bytes) -> None:
        self.size += self._out.write(data)
        self._digest.update(data)

    @property
    def sha256(self) -> str:
        """Hex, of what was written."""
        return self._digest.hexdigest()

    def synchronise(self) -> None:
        """Have its bytes survive a loss of power."""
        self._out.flush()
        os.fsync(self._out.fileno())

    def place(self, file_id: str) -> None:
        """Make it the object of this id, once it was synchronised. One that is there already is replaced."""
        self._path.rename(self._objects.path(file_id))
        _synchronise(self._objects.path(file_id).parent)


class Objects:
    """Any number of processes may share the folder."""

    def __init__(self, folder: Path) -> None:
        self._files, self._segments, self._temporary = (folder / name for name in ("files", "segments", "temporary"))
        for part in (self._files, self._segments, self._temporary):
            part.mkdir(mode=0o700, parents=True, exist_ok=True)

    def path(self, file_id: str) -> Path:
        if not _NAME.fullmatch(file_id):
            raise ValueError(f"{file_id!r} is not the id of a file")
        return self._files / file_id

    @contextmanager
    def draft(self) -> Iterator["Draft"]:
        """A new object, which is there once it was placed. What was not placed is forgotten at the block's end."""
        path = self._temporary / secrets.token_hex(16)
        try:
            with path.open("xb") as out:
                yield Draft(path, out, self)
        finally:
            path.unlink(missing_ok=True)

    def remove(self, file_id: str) -> None:
        self.path(file_id).unlink(missing_ok=True)

    def append(self, batch: int, worker: int, data: bytes) -> int:
        """Write to the worker's segment of the batch. Returns where it begins. What a write that failed has left is never read."""
        path = self._segment(batch, worker)
        is_new = not path.exists()
        if is_new:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            _synchronise(self._segments)
        with path.open("ab", buffering=0) as out:
            offset = out.seek(0, os.SEEK_END)
            view = memoryview(data)
            while view:
                view = view[out.write(view) :]
            os.fdatasync(out.fileno())
        if is_new:
            _synchronise(path.parent)
        return offset

    def read_segment(self, batch: int, worker: int) -> BinaryIO:
        return self._segment(batch, worker).open("rb")

    def write_events(self, batch: int, attempt: int, offset: int, data: bytes) -> None:
        """At this place, whether they were there or not."""
        path = self._events(batch, attempt)
        is_new = not path.exists()
        path.parent.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            while data:
                size = os.pwrite(descriptor, data, offset)
                data, offset = data[size:], offset + size
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
        if is_new:
            _synchronise(path.parent)
            _synchronise(self._segments)

    def read_events(self, batch: int, attempt: int, begin: int, end: int) -> bytes:
        """Raises OSError where they are not there whole."""
        with self._events(batch, attempt).open("rb") as file:
            file.seek(begin)
            data = file.read(end - begin)
        if len(data) != end - begin:
            raise OSError(f"the events of {batch} are cut off: its folder has lost bytes")
        return data

    def remove_segments(self, batch: int) -> None:
        shutil.rmtree(self._segments / str(batch), ignore_errors=True)

    def old(self) -> Iterator[tuple[str, list[str]]]:
        """What has been there for GRACE_S, some at a time: (`file`, ids), (`segments`, their batches), (`temporary`, names)."""
        before_s = time.time() - GRACE_S
        for kind, folder in (("file", self._files), ("segments", self._segments), ("temporary", self._temporary)):
            names = []
            for entry in os.scandir(folder):
                with suppress(FileNotFoundError):
                    if entry.stat().st_mtime < before_s:
                        names.append(entry.name)
            for begin in range(0, len(names), _NAMES):
                yield kind, names[begin : begin + _NAMES]

    def remove_temporary(self, name: str) -> None:
        (self._temporary / name).unlink(missing_ok=True)

    def _events(self, batch: int, attempt: int) -> Path:
        return self._segments / str(batch) / f"{attempt}.events"

    def _segment(self, batch: int, worker: int) -> Path:
        return self._segments / str(batch) / f"{worker}.jsonl"


def _synchronise(folder: Path) -> None:
    """Have the folder's entries survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
