"""Damage on disk loses only the damaged records, and is reported."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.telemetry.ingest.spool import segment_files
from controlplane.telemetry.ingest.spool.frame import HEADER_BYTES, MAGIC, Position, frames, header, next_frame
from controlplane.telemetry.ingest.spool.reader import Damage, SpoolReader
from tests.support.telemetry.spool import KIND, append, opened, read_all

NOW_NS = 1_800_000_000 * 10**9


def framed(payload: bytes) -> bytes:
    return header(KIND, NOW_NS, payload) + payload


def read_on(folder: Path, frontier: Position, max_bytes: int = 2**20) -> tuple[list[bytes], list[Damage]]:
    found: list[Damage] = []
    reader = SpoolReader(folder, on_damage=found.append)
    payloads = []
    while some := reader.read(frontier, max_bytes):
        payloads += [record.payload for record in some]
    assert reader.position == frontier
    reader.close()
    return payloads, found


@settings(max_examples=100, deadline=None)
@given(
    payloads=st.lists(st.binary(min_size=1, max_size=200), min_size=1, max_size=8),
    at=st.integers(0, 2**16),
    bit=st.integers(0, 7),
)
def test_a_flipped_bit_anywhere_costs_one_record(payloads: list[bytes], at: int, bit: int) -> None:
    data = bytearray(b"".join(map(framed, payloads)))
    at %= len(data)
    data[at] ^= 1 << bit
    hit, begin = 0, 0
    while at >= (end := begin + HEADER_BYTES + len(payloads[hit])):
        hit, begin = hit + 1, end
    following = next_frame(bytes(data), begin)
    left = [] if following is None else [record.payload for record in frames(bytes(data[following:]), 1, 0)]
    assert left == payloads[hit + 1 :]


@pytest.mark.parametrize("where", ["length", "checksum", "kind", "payload"])
def test_records_after_a_damaged_one_are_read(tmp_path: Path, where: str) -> None:
    writer = opened(tmp_path)
    append(writer, b"a" * 60)
    before = writer.committed
    for payload in (b"b" * 60, b"c" * 60, b"d" * 60):
        append(writer, payload)
    writer.close()
    offset = {"length": 2, "checksum": 5, "kind": 16, "payload": HEADER_BYTES + 20}[where]
    with segment_files.path_of(tmp_path, 1).open("r+b") as file:
        file.seek(before.offset + offset)
        [byte] = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 0xFF]))
    for max_bytes in (32, 2**20):
        payloads, found = read_on(tmp_path, writer.committed, max_bytes)
        assert [payload[:1] for payload in payloads] == [b"a", b"c", b"d"]
        assert [(one.at, one.lost_bytes) for one in found] == [(before, HEADER_BYTES + 60)]


def test_damage_at_the_end_of_a_segment_leaves_the_next_alone(tmp_path: Path) -> None:
    writer = opened(tmp_path, segment_bytes=64)
    for payload in (b"a" * 60, b"b" * 60, b"c" * 60):
        append(writer, payload)
    writer.close()
    with segment_files.path_of(tmp_path, 2).open("r+b") as file:
        file.seek(40)
        file.write(b"!")
    payloads, found = read_on(tmp_path, writer.committed)
    assert [payload[:1] for payload in payloads] == [b"a", b"c"]
    assert [(one.at, one.lost_bytes) for one in found] == [(segment_files.start_of(2), HEADER_BYTES + 60)]


def test_a_restart_keeps_what_lies_behind_damage(tmp_path: Path) -> None:
    writer = opened(tmp_path)
    append(writer, b"a" * 60, b"b" * 60, b"c" * 60)
    writer.close()
    with segment_files.path_of(tmp_path, 1).open("r+b") as file:
        file.write(b"?" * (len(MAGIC) + HEADER_BYTES + 30))
    with segment_files.path_of(tmp_path, 1).open("ab") as file:
        file.write(framed(b"torn")[:-1])
    again = opened(tmp_path)
    append(again, b"after")
    payloads, found = read_on(tmp_path, again.committed)
    assert [payload[:1] for payload in payloads] == [b"b", b"c", b"a"]
    assert len(found) == 1
    again.close()


def test_a_block_that_the_disk_does_not_give_costs_what_lies_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = opened(tmp_path)
    sizes = (10, 200_000, 30)
    append(writer, *[bytes([number]) * size for number, size in enumerate(sizes)])
    writer.close()
    really = os.pread

    def pread(handle: int, length: int, offset: int) -> bytes:
        if offset < 100_000 < offset + length:
            raise OSError(5, "Input/output error")
        return really(handle, length, offset)

    monkeypatch.setattr(os, "pread", pread)
    payloads, found = read_on(tmp_path, writer.committed)
    assert len(found) == 1 and "Input/output error" in found[0].reason
    assert payloads == [bytes(10), b"\2" * 30]


def test_a_segment_that_is_gone_is_said_and_the_next_one_read(tmp_path: Path) -> None:
    writer = opened(tmp_path, segment_bytes=64)
    for payload in (b"a" * 60, b"b" * 60, b"c" * 60):
        append(writer, payload)
    segment_files.path_of(tmp_path, 1).unlink()
    segment_files.path_of(tmp_path, 3).unlink()
    found: list[Damage] = []
    reader = SpoolReader(tmp_path, segment_files.start_of(1), on_damage=found.append)
    assert [record.payload[:1] for record in reader.read(writer.committed)] == [b"b"]
    assert reader.read(writer.committed) == []
    assert [one.at.segment for one in found] == [1, 3]
    writer.close()


def test_a_damaged_segment_is_kept_and_only_so_many(tmp_path: Path) -> None:
    writer = opened(tmp_path, segment_bytes=64)
    for number in range(segment_files.MAX_DAMAGED + 3):
        append(writer, bytes([number]) * 60)
    for number in segment_files.numbers(tmp_path):
        segment_files.set_aside(tmp_path, number)
        segment_files.set_aside(tmp_path, number)
    writer.release(writer.committed)
    kept = segment_files.numbers(tmp_path / segment_files.DAMAGED_FOLDER)
    assert kept == list(range(4, segment_files.MAX_DAMAGED + 4))
    assert (
        len(read_all(tmp_path / segment_files.DAMAGED_FOLDER, segment_files.start_of(segment_files.MAX_DAMAGED + 4)))
        == segment_files.MAX_DAMAGED
    )
    writer.close()
