"""Processes that change things and are killed at any moment leave an audit with each change once. `make test-soak`: a thousand kills."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.soak import sized


def test_an_audit_has_each_change_once_wherever_its_writers_are_killed(tmp_path: Path) -> None:
    kills = sized(5, soak=1000)
    ended = subprocess.run(
        [sys.executable, "-m", "tests.support.audit_histories", str(kills), "7"],
        env={**os.environ, "WEIR_HOME": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert f"{kills} kills" in ended.stdout
