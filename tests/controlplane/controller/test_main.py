"""The controller's process."""

import os
import subprocess
import sys
from pathlib import Path


def test_without_a_store_it_says_which_setting_is_missing_and_ends(tmp_path: Path) -> None:
    environment = {**os.environ, "WEIR_HOME": str(tmp_path), "WEIR_STORE_DSN": ""}
    ran = subprocess.run(
        [sys.executable, "-m", "controlplane.controller"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 1
    remedy = "set it to clickhouse://user:password@host:port/database"
    assert ran.stderr.splitlines()[-1] == f"the controller cannot run: WEIR_STORE_DSN is empty: {remedy}"
    assert "Traceback" not in ran.stderr
