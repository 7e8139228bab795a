"""Objects in a bucket of S3, or of whatever speaks its protocol. Its address and credentials are those of the environment (AWS_…).

Nothing is appended there: the results of each commit are a segment of their own, and events that were written together are an object whose
name says where they begin.
"""

import os
import tempfile
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import BinaryIO, TypeVar

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from controlplane.lane.objects.port import (
    GRACE_S,
    AwayError,
    Draft,
    Objects,
    Place,
    Segments,
    checked,
    new_key,
    read_whole,
    some,
    whole,
)

T = TypeVar("T")

_PART_BYTES = 4 << 20
_IN_MEMORY_BYTES = 1 << 20  # of a draft; a longer one is in a temporary file until it is whole
_AT_A_TIME = 16  # segments
_RETRIES = 3


class Bucket(Objects):
    """Raises OSError where it cannot be reached."""

    is_near = False

    def __init__(self, bucket: str, prefix: str = "") -> None:
        self._store = S3Store(
            bucket,
            prefix=prefix or None,
            client_options={"allow_http": True, "connect_timeout": "5s", "timeout": "60s"},
            retry_config={"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=30)},
        )
        for _ in self.old():
            break

    @contextmanager
    def draft(self) -> Iterator[Draft]:
        with tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES) as out:
            draft = _Spooled(out, self)  # type: ignore[arg-type]  # it has all of BinaryIO
            try:
                yield draft
            finally:
                if draft.was_sent and not draft.referred:
                    with suppress(AwayError):  # it is swept
                        self.remove(draft.key)

    def put(self, name: str, data: BinaryIO | bytes) -> None:
        """It is there whole or not at all."""
        _say(lambda: obstore.put(self._store, name, data))

    @contextmanager
    def open(self, key: str) -> Iterator[BinaryIO]:
        with tempfile.TemporaryFile() as file:
            for data in self.parts(key):
                file.write(data)
            file.seek(0)
            yield file

    def parts(self, key: str) -> Iterator[bytes]:
        size = _say(lambda: obstore.head(self._store, _file(key)))["size"]
        for begin in range(0, size, _PART_BYTES):  # each a request of its own: whoever reads may take long
            yield self.read(key, begin, min(_PART_BYTES, size - begin))

    def read(self, key: str, offset: int, length: int) -> bytes:
        return whole(self._range(_file(key), offset, length), length)

    def _range(self, name: str, offset: int, length: int) -> bytes:
        return _say(lambda: bytes(obstore.get_range(self._store, name, start=offset, length=length)))

    def remove(self, key: str) -> None:
        _say(lambda: obstore.delete(self._store, _file(key)))

    def append(self, batch: int, worker: int, data: bytes) -> Place:
        segment = int(new_key()[:15], 16)
        self.put(_segment(batch, segment), data)
        return Place(segment, 0)

    @contextmanager
    def segments(self, batch: int) -> Iterator[Segments]:
        with tempfile.TemporaryFile() as file, ThreadPoolExecutor(_AT_A_TIME) as threads:
            yield _Fetched(file, threads, lambda segment: self._there(_segment(batch, segment)))

    def result(self, batch: int, segment: int, offset: int, length: int) -> bytes:
        return whole(self._range(_segment(batch, segment), offset, length), length)

    def _whole(self, name: str) -> bytes:
        return _say(lambda: bytes(obstore.get(self._store, name).bytes()))

    def _there(self, name: str) -> bytes:
        """Nothing where it is not there."""
        with suppress(FileNotFoundError):
            return self._whole(name)
        return b""

    def write_events(self, batch: int, attempt: int, offset: int, data: bytes) -> None:
        self.put(f"{_events(batch, attempt)}/{offset:015}", data)

    def read_events(self, batch: int, attempt: int, begin: int, end: int) -> bytes:
        names = sorted(name for name, _ in self._listed(f"{_events(batch, attempt)}/"))
        offsets = [int(name.rpartition("/")[2]) for name in names]
        out = bytearray()
        for name, offset, beyond in zip(names, offsets, [*offsets[1:], end], strict=True):
            if begin < beyond and offset < end:
                out += self._whole(name)[max(0, begin - offset) : min(beyond, end) - offset]
        return whole(bytes(out), end - begin)

    def remove_segments(self, batch: int) -> None:
        self._remove_all(f"segments/{batch}/")

    def _remove_all(self, prefix: str) -> None:
        for names in some([name for name, _ in self._listed(prefix)]):
            _say(lambda names=names: obstore.delete(self._store, names))  # type: ignore[misc]

    def old(self) -> Iterator[list[str]]:
        before = datetime.now(UTC) - timedelta(seconds=GRACE_S)
        yield from some([name.removeprefix("files/") for name, at in self._listed("files/") if at < before])

    def batches(self) -> Iterator[list[int]]:
        listed = _say(lambda: obstore.list_with_delimiter(self._store, "segments/"))
        names = (name.rpartition("/")[2] for name in listed["common_prefixes"])
        yield from some([int(name) for name in names if name.isdecimal()])

    def _listed(self, prefix: str) -> Iterator[tuple[str, datetime]]:
        pages = obstore.list(self._store, prefix)
        while page := _say(lambda: next(pages, None)):
            yield from ((it["path"], it["last_modified"]) for it in page)


class _Spooled(Draft):
    def __init__(self, out: BinaryIO, bucket: Bucket) -> None:
        super().__init__(out, new_key())
        self._bucket, self.was_sent = bucket, False

    def synchronise(self) -> None:
        self._out.seek(0)
        self.was_sent = True
        small = self.size <= _IN_MEMORY_BYTES
        self._bucket.put(_file(self.key), self._out.read() if small else self._out)


class _Fetched(Segments):
    """Those that were fetched, one after the other in a file that ends with this process."""

    def __init__(self, file: BinaryIO, threads: ThreadPoolExecutor, get: Callable[[int], bytes]) -> None:
        self._file, self._threads, self._get = file, threads, get
        self._spans: dict[int, tuple[int, int]] = {}  # where it begins and ends

    def fetch(self, segments: Collection[int]) -> None:
        missing = sorted(set(segments) - self._spans.keys())
        for begin in range(0, len(missing), _AT_A_TIME):
            these = missing[begin : begin + _AT_A_TIME]
            for segment, data in zip(these, self._threads.map(self._get, these), strict=True):
                begin = self._file.seek(0, os.SEEK_END)
                self._spans[segment] = (begin, begin + self._file.write(data))

    def read(self, segment: int, offset: int, length: int) -> bytes:
        begin, end = self._spans[segment]
        begin = min(begin + offset, end)
        return whole(read_whole(self._file, begin, min(length, end - begin)), length)


def _file(key: str) -> str:
    return f"files/{checked(key)}"


def _segment(batch: int, segment: int) -> str:
    return f"segments/{batch}/{segment}.jsonl"


def _events(batch: int, attempt: int) -> str:
    return f"segments/{batch}/{attempt}.events"


def _say(call: Callable[[], T]) -> T:
    """Raises FileNotFoundError, AwayError. The store's messages go on for pages: the first line says it."""
    try:
        return call()
    except BaseError as error:
        raise AwayError(str(error).partition("\n")[0]) from None
