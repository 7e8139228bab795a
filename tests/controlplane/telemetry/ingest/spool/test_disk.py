"""A disk that refuses, hangs or has no room: senders get an error with the reason, and the spool recovers by itself."""

import os
import threading
from pathlib import Path
from typing import NoReturn

import pytest

from controlplane.telemetry.ingest.spool import checkpoint, segment_files
from controlplane.telemetry.ingest.spool.frame import Position
from controlplane.telemetry.ingest.spool.writer import SpoolFullError, SpoolWriter
from tests.support.telemetry.spool import KIND, append, opened, read_all
from tests.support.wait import eventually


def read_only(*_: object, **__: object) -> NoReturn:
    raise OSError(30, "Read-only file system")


REFUSED = ("writev", "ftruncate", "truncate", "fdatasync", "unlink")


def test_a_disk_that_turns_read_only_is_named_and_survived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = opened(tmp_path)
    append(writer, b"before")
    with monkeypatch.context() as disk:
        really, all_wait = os.writev, threading.Event()

        def half(handle: int, buffers: list[bytes]) -> int:
            assert all_wait.wait(10)
            disk.setattr(os, "writev", read_only)
            return really(handle, [memoryview(buffers[0])[:5]])

        for name in REFUSED:
            disk.setattr(os, name, read_only)
        disk.setattr(os, "writev", half)
        lost = [writer.append(KIND, b"lost") for _ in range(3)]
        all_wait.set()
        for done in lost:
            with pytest.raises(SpoolFullError, match="Read-only file system"):
                done.result(120)
        with pytest.raises(SpoolFullError, match="Read-only file system"):
            writer.append(KIND, b"refused at once")
        assert writer.alive and "Read-only file system" in writer.refusal()
    eventually(lambda: not writer.refusal(), "it takes records again without being asked to")
    append(writer, b"after")
    assert segment_files.path_of(tmp_path, 1).stat().st_size == Position(1, 8 + 17 + len(b"before")).offset
    assert [record.payload for record in read_all(tmp_path, writer.committed)] == [b"before", b"after"]
    writer.close()


def test_an_error_that_is_not_the_disks_does_not_end_the_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = opened(tmp_path)

    def wrong(*_: object) -> NoReturn:
        raise ValueError("a fault of ours")

    with monkeypatch.context() as broken:
        broken.setattr(os, "writev", wrong)
        with pytest.raises(SpoolFullError, match="a fault of ours"):
            writer.append(KIND, b"lost").result(120)
    eventually(lambda: writer.alive and not writer.refusal(), "it goes on")
    append(writer, b"after")
    writer.close()


def test_a_receiver_that_cannot_be_told_does_not_end_the_thread(tmp_path: Path) -> None:
    def gone(_: Position) -> NoReturn:
        raise RuntimeError("Event loop is closed")

    writer = SpoolWriter(tmp_path, max_bytes=2**20, on_commit=gone)
    append(writer, b"one")
    append(writer, b"two")
    writer.close()


def test_a_disk_that_does_not_answer_is_named_and_nothing_more_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = opened(tmp_path)
    answered, reached, really = threading.Event(), threading.Event(), os.fdatasync

    def hang(handle: int) -> None:
        reached.set()
        answered.wait(120)
        really(handle)

    monkeypatch.setattr(os, "fdatasync", hang)
    waiting = writer.append(KIND, b"waits")
    assert reached.wait(120) and not writer.refusal()
    assert writer._writing_since is not None
    monkeypatch.setattr(writer, "_writing_since", writer._writing_since - 11)
    with pytest.raises(SpoolFullError, match="has not answered for 11 s"):
        writer.append(KIND, b"too much")
    answered.set()
    waiting.result(120)
    eventually(lambda: not writer.refusal(), "it takes records again")
    writer.close()


def test_a_disk_that_cannot_be_looked_at_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = opened(tmp_path)
    monkeypatch.setattr(os, "statvfs", read_only)
    assert "cannot be read" in writer.refusal()
    writer.close()


def many(folder: Path, **limits: int) -> SpoolWriter:
    """Four segments, of which all but the last are worked off."""
    writer = opened(folder, **{"segment_bytes": 64, "keep_s": 60} | limits)
    for number in range(4):
        append(writer, bytes([number]) * 60)
        writer.release(writer.committed)
    return writer


def test_what_is_worked_off_stays_for_a_while_and_is_no_backlog(tmp_path: Path) -> None:
    writer = many(tmp_path)
    assert segment_files.numbers(tmp_path) == [1, 2, 3, 4] and writer.backlog == 0 < writer.size
    writer._keep_s = 0  # the minute has passed
    writer.tidy()
    assert segment_files.numbers(tmp_path) == [4]
    writer.close()


def test_what_is_worked_off_makes_room_before_anybody_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = many(tmp_path, max_bytes=250)
    assert segment_files.numbers(tmp_path) == [3, 4], "no more than `max_bytes` on disk"
    really = os.statvfs

    def short(path: Path) -> os.statvfs_result:
        found = list(really(path))
        found[4] = 0 if segment_files.path_of(tmp_path, 3).exists() else 2**20
        return os.statvfs_result(found)

    monkeypatch.setattr(os, "statvfs", short)
    monkeypatch.setattr(writer, "_disk_looked", 0.0)
    append(writer, b"x")
    assert segment_files.numbers(tmp_path)[0] == 4
    writer.close()


def test_a_disk_that_does_not_delete_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = many(tmp_path)
    monkeypatch.setattr(Path, "unlink", read_only)
    writer._keep_s = 0
    writer.tidy()
    append(writer, b"still taken")
    monkeypatch.undo()
    writer.tidy()
    assert len(segment_files.numbers(tmp_path)) == 2
    writer.close()


def test_after_the_machine_was_started_anew_what_was_kept_is_worked_off_again(tmp_path: Path) -> None:
    writer = many(tmp_path)
    writer.close()
    checkpoint.settle(tmp_path, 2)
    for shard in range(2):
        checkpoint.save(tmp_path, shard, 2, writer.committed)
    assert checkpoint.settle(tmp_path, 2) == writer.committed, "the same start of the machine: a kill loses nothing"
    (tmp_path / checkpoint.BOOT_FILE).write_text("another")
    assert checkpoint.settle(tmp_path, 2) == segment_files.start_of(1)
    assert [checkpoint.load(tmp_path, shard, 2) for shard in range(2)] == [segment_files.start_of(1)] * 2
    checkpoint.save(tmp_path, 0, 2, writer.committed)
    checkpoint.save(tmp_path, 1, 2, writer.committed)
    assert checkpoint.settle(tmp_path, 2) == writer.committed, "once is enough"
