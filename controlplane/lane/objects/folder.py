"""Objects in a folder, which any number of processes may share. A worker alone appends to its file of results for each batch."""

import os
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from controlplane.lane.objects.port import GRACE_S, Draft, Objects, Place, Segments, checked, new_key, read_whole, some

_PART_BYTES = 1 << 20


class _File(Draft):
    def __init__(self, out: BinaryIO, path: Path) -> None:
        super().__init__(out, path.name)
        self._folder = path.parent

    def synchronise(self) -> None:
        self._out.flush()
        os.fsync(self._out.fileno())
        _synchronise(self._folder)


class _Files(Segments):
    _OPEN = 64  # at a time: a batch may have a segment of each worker that ever ran a line of it

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[int, BinaryIO] = {}

    def fetch(self, segments: Collection[int]) -> None:
        pass  # they are here

    def read(self, segment: int, offset: int, length: int) -> bytes:
        file = self._files.pop(segment, None)
        if file is None:
            if len(self._files) >= self._OPEN:
                self._files.pop(next(iter(self._files))).close()
            file = (self._folder / f"{segment}.jsonl").open("rb")
        self._files[segment] = file
        return read_whole(file, offset, length)

    def close(self) -> None:
        for file in self._files.values():
            file.close()


class Folder(Objects):
    def __init__(self, folder: Path) -> None:
        self._files, self._segments = (folder / name for name in ("files", "segments"))
        for part in (self._files, self._segments):
            part.mkdir(mode=0o700, parents=True, exist_ok=True)

    def path(self, key: str) -> Path:
        return self._files / checked(key)

    @contextmanager
    def draft(self) -> Iterator[Draft]:
        path, draft = self.path(new_key()), None
        try:
            with path.open("xb") as out:
                draft = _File(out, path)
                yield draft
        finally:
            if draft is None or not draft.referred:
                path.unlink(missing_ok=True)

    @contextmanager
    def open(self, key: str) -> Iterator[BinaryIO]:
        with self.path(key).open("rb") as file:
            yield file

    def parts(self, key: str) -> Iterator[bytes]:
        with self.path(key).open("rb") as file:
            while data := file.read(_PART_BYTES):
                yield data

    def read(self, key: str, offset: int, length: int) -> bytes:
        with self.path(key).open("rb") as file:
            return read_whole(file, offset, length)

    def remove(self, key: str) -> None:
        self.path(key).unlink(missing_ok=True)

    def append(self, batch: int, worker: int, data: bytes) -> Place:
        path = self._segments / str(batch) / f"{worker}.jsonl"
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
        return Place(worker, offset)

    @contextmanager
    def segments(self, batch: int) -> Iterator[Segments]:
        its = _Files(self._segments / str(batch))
        try:
            yield its
        finally:
            its.close()

    def result(self, batch: int, segment: int, offset: int, length: int) -> bytes:
        with self.segments(batch) as its:
            return its.read(segment, offset, length)

    def write_events(self, batch: int, attempt: int, offset: int, data: bytes) -> None:
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
        with self._events(batch, attempt).open("rb") as file:
            return read_whole(file, begin, end - begin)

    def _events(self, batch: int, attempt: int) -> Path:
        return self._segments / str(batch) / f"{attempt}.events"

    def remove_segments(self, batch: int) -> None:
        shutil.rmtree(self._segments / str(batch), ignore_errors=True)

    def old(self) -> Iterator[list[str]]:
        before_s, keys = time.time() - GRACE_S, []
        for entry in os.scandir(self._files):
            with suppress(FileNotFoundError):
                if entry.stat().st_mtime < before_s:
                    keys.append(entry.name)
        yield from some(keys)

    def batches(self) -> Iterator[list[int]]:
        yield from some([int(entry.name) for entry in os.scandir(self._segments) if entry.name.isdecimal()])


def _synchronise(folder: Path) -> None:
    """Have the folder's entries survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
