"""Blank lines of a batch's file are skipped many at a time: two hundred million of them held up all other batches for minutes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest

from controlplane.lane.models import Line
from controlplane.lane.objects.folder import Folder
from tests.support.lane.process import a_line, jsonl
from tests.support.lane.stored import do_chores, new_batch

pytestmark = pytest.mark.django_db(transaction=True)
BLANK = b"\n" * 100_000 + b" \r\n\t\n" * 50_000 + b" " * 100_000 + b"\n"


class Counted(Folder):
    """Counts how often its files are read."""

    reads = 0

    @contextmanager
    def open(self, key: str) -> Iterator[BinaryIO]:
        with super().open(key) as file:
            yield cast(BinaryIO, _Counted(file, self))


class _Counted:
    def __init__(self, file: BinaryIO, objects: Counted) -> None:
        self._file, self._objects = file, objects

    def __getattr__(self, name: str) -> Any:
        self._objects.reads += name in ("read", "readline")
        return getattr(self._file, name)


def test_blank_lines_are_skipped_many_at_a_time_and_count(home: Path) -> None:
    objects = Counted(home / "lane")
    first, second, third = (jsonl([a_line(name, "x")]) for name in "123")
    new_batch(objects, BLANK + first + second + b"\n" + BLANK + b"  " + third + b"\n\n")
    do_chores(objects)
    number, at = 200_002, len(BLANK)
    again = number + 1 + 200_002
    assert list(Line.objects.order_by("number").values_list("number", "offset", "length")) == [
        (number, at, len(first)),
        (number + 1, at + len(first), len(second)),
        (again + 1, 2 * at + len(first) + len(second) + 1, 2 + len(third)),
    ]
    assert objects.reads < 2_000
