"""Appended records are read back complete, in order and once."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.telemetry.ingest.spool import checkpoint, segment_files
from controlplane.telemetry.ingest.spool.frame import MAGIC, Position, frames, header
from controlplane.telemetry.ingest.spool.writer import SpoolFullError
from tests.support.telemetry.spool import KIND, append, opened, read_all


@settings(max_examples=60, deadline=None)
@given(payloads=st.lists(st.binary(max_size=300)), cut=st.integers(0, 2**16))
def test_a_frame_cut_anywhere_leaves_those_before_it(payloads: list[bytes], cut: int) -> None:
    data = b"".join(header(KIND, 5, payload) + payload for payload in payloads)
    found = [record.payload for record in frames(data[: cut % (len(data) + 1)], 1, 0)]
    assert found == payloads[: len(found)]
    assert [record.payload for record in frames(data, 1, 0)] == payloads


def test_records_come_back_in_order_over_many_segments(tmp_path: Path) -> None:
    writer = opened(tmp_path, segment_bytes=100)
    payloads = [os.urandom(40) for _ in range(30)] + [os.urandom(5000)]
    for payload in payloads:
        append(writer, payload)
    found = read_all(tmp_path, writer.committed, max_bytes=64)
    assert [record.payload for record in found] == payloads
    assert len(segment_files.numbers(tmp_path)) > 5
    assert read_all(tmp_path, writer.committed, found[10].end)[0] == found[11]
    writer.close()


def test_nothing_past_the_frontier_is_read(tmp_path: Path) -> None:
    writer = opened(tmp_path)
    append(writer, b"one")
    frontier = writer.committed
    append(writer, b"two")
    assert [record.payload for record in read_all(tmp_path, frontier)] == [b"one"]
    writer.close()


def test_many_waiting_records_are_committed_together(tmp_path: Path) -> None:
    commits: list[Position] = []
    writer = opened(tmp_path, on_commit=commits.append)  # type: ignore[arg-type]
    futures = [writer.append(KIND, b"x" * 100) for _ in range(2000)]
    for done in futures:
        done.result(120)
    assert len(commits) < 1000
    assert len(read_all(tmp_path, writer.committed)) == 2000
    writer.close()


@pytest.mark.parametrize("torn", [b"\x01", b"\xff" * 16, b"\x10\0\0\0" + bytes(20)])
def test_what_a_kill_tore_off_is_cut_and_the_rest_kept(tmp_path: Path, torn: bytes) -> None:
    writer = opened(tmp_path)
    append(writer, b"kept", b"too")
    writer.close()
    with segment_files.path_of(tmp_path, 1).open("ab") as file:
        file.write(torn)
    again = opened(tmp_path)
    append(again, b"after")
    assert [record.payload for record in read_all(tmp_path, again.committed)] == [b"kept", b"too", b"after"]
    again.close()


def test_a_segment_of_which_not_even_the_beginning_was_written_does_no_harm(tmp_path: Path) -> None:
    writer = opened(tmp_path)
    append(writer, b"kept")
    writer.close()
    segment_files.path_of(tmp_path, 2).write_bytes(MAGIC[:3])
    again = opened(tmp_path)
    append(again, b"after")
    assert [record.payload for record in read_all(tmp_path, again.committed)] == [b"kept", b"after"]
    again.close()


def test_segments_that_are_worked_off_are_deleted(tmp_path: Path) -> None:
    writer = opened(tmp_path, segment_bytes=64)
    for number in range(5):
        append(writer, bytes([number]) * 60)
    done = read_all(tmp_path, writer.committed)[3].start
    writer.release(done)
    assert segment_files.numbers(tmp_path) == [4, 5]
    assert writer.size == sum(path.stat().st_size for path in tmp_path.glob("*.spool"))
    writer.release(writer.committed)
    assert segment_files.numbers(tmp_path) == [5]
    writer.close()


def test_a_full_spool_refuses_until_it_is_worked_off(tmp_path: Path) -> None:
    writer = opened(tmp_path, max_bytes=200, segment_bytes=2**20)
    append(writer, b"x" * 100)
    append(writer, b"x" * 100)
    with pytest.raises(SpoolFullError, match="WEIR_SPOOL_MAX_BYTES") as full:
        writer.append(KIND, b"x")
    assert full.value.retry_after_s > 0
    writer.release(writer.committed)
    append(writer, b"x")
    writer.close()


def test_a_disk_with_less_left_than_is_kept_free_refuses(tmp_path: Path) -> None:
    writer = opened(tmp_path, reserve_bytes=2**62)
    with pytest.raises(SpoolFullError, match="WEIR_SPOOL_RESERVE_BYTES"):
        writer.append(KIND, b"x")
    writer.close()


def test_a_closed_spool_commits_what_waits_and_takes_no_more(tmp_path: Path) -> None:
    writer = opened(tmp_path)
    waiting = [writer.append(KIND, b"x") for _ in range(100)]
    writer.close()
    assert all(done.done() and not done.exception() for done in waiting)
    with pytest.raises(SpoolFullError):
        writer.append(KIND, b"x")


def test_shards_begin_at_the_oldest_segment_and_then_each_at_its_own_checkpoint(tmp_path: Path) -> None:
    segment_files.path_of(tmp_path, 4).write_bytes(MAGIC)
    assert checkpoint.settle(tmp_path, 2) == segment_files.start_of(4)
    checkpoint.save(tmp_path, 0, 2, Position(6, 7))
    assert checkpoint.settle(tmp_path, 2) == segment_files.start_of(4)
    assert [checkpoint.load(tmp_path, shard, 2) for shard in range(2)] == [Position(6, 7), segment_files.start_of(4)]


def test_another_number_of_shards_begins_at_the_least_advanced(tmp_path: Path) -> None:
    checkpoint.settle(tmp_path, 2)
    checkpoint.save(tmp_path, 0, 2, Position(5, 1))
    checkpoint.save(tmp_path, 1, 2, Position(3, 7))
    checkpoint.save(tmp_path, 2, 3, Position(9, 9))  # a kill while the number was changed
    assert checkpoint.settle(tmp_path, 3) == Position(3, 7)
    assert [checkpoint.load(tmp_path, shard, 3) for shard in range(3)] == [Position(3, 7)] * 3
    assert len(list(tmp_path.glob("checkpoint.*"))) == 3


def test_a_sender_that_goes_away_stops_nobody_else(tmp_path: Path) -> None:
    writer = opened(tmp_path)
    gone = [writer.append(KIND, b"x") for _ in range(20)]
    assert not any(done.cancel() for done in gone), "what is being written cannot be called back"
    append(writer, b"still taken")
    writer.close()
