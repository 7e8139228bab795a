from pathlib import Path

import pytest

from deploy.local import logs
from deploy.local.logs import Log


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_lines_of_an_earlier_run_are_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "part.log"
    append(path, "[error] old\n")
    log = Log(path)
    append(path, "[error] new\n")
    assert log.follow() == ["[error] new"]


def test_a_line_is_shown_when_it_is_complete(tmp_path: Path) -> None:
    log = Log(tmp_path / "part.log")
    append(log.path, "[error] half")
    assert log.follow() == []
    append(log.path, " and half\n")
    assert log.follow() == ["[error] half and half"]


def test_colours_are_left_out(tmp_path: Path) -> None:
    log = Log(tmp_path / "part.log")
    append(log.path, "\x1b[31m[error\x1b[0m] red\n")
    assert log.follow() == ["[error] red"]


def test_a_flood_of_errors_is_a_few_lines_and_a_pointer_to_the_file(tmp_path: Path) -> None:
    log = Log(tmp_path / "part.log")
    append(log.path, "".join(f"[error] {number}\n" for number in range(100)))
    shown = log.follow()
    assert shown == [*(f"[error] {number}" for number in range(logs.SHOWN_LINES)), f"… more in {log.path}"]
    append(log.path, "[error] and more\n")
    assert log.follow() == []


def test_the_file_stays_small_and_its_end_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LIMIT_BYTES", 1000)
    log = Log(tmp_path / "part.log")
    with log.path.open(
        "ab", buffering=0
    ) as writer:  # appending, as a part does: a file that is cut goes on at its start
        for number in range(500):
            writer.write(f"line {number}\n".encode())
            log.follow()
        assert log.path.stat().st_size < 1100
        assert log.path.with_suffix(".log.1").stat().st_size < 1100
        writer.write(b"[error] after the cut\n")
        assert log.follow() == ["[error] after the cut"]
