import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from deploy.local.errors import CannotRunError
from deploy.local.home_lock import MARK, hold, region_prefix, sweep
from deploy.local.process import ROOT
from deploy.local.triton import SHARED_MEMORY


def sleeper(home: Path) -> subprocess.Popen[bytes]:
    """A process that an earlier launcher of `home` has left behind."""
    return subprocess.Popen((sys.executable, "-c", "import time; time.sleep(600)"), env={**os.environ, MARK: str(home)})


def test_a_second_launcher_reports_who_has_locked_the_home(tmp_path: Path) -> None:
    with hold(tmp_path, print):
        code = (
            "import sys, pathlib; from deploy.local.home_lock import hold; from deploy.local.errors import CannotRunError\n"
            "try:\n    hold(pathlib.Path(sys.argv[1]), print).__enter__()\n"
            "except CannotRunError as error:\n    print(error)"
        )
        done = subprocess.run(
            (sys.executable, "-c", code, str(tmp_path)), cwd=ROOT, capture_output=True, text=True, check=True
        )
    assert f"weir already runs in {tmp_path} (process {os.getpid()})" in done.stdout
    assert "WEIR_HOME" in done.stdout


def test_the_home_can_be_locked_again_afterwards(tmp_path: Path) -> None:
    for _ in range(2):
        with hold(tmp_path, print):
            pass


def test_a_home_that_cannot_be_made_is_one_sentence() -> None:
    with pytest.raises(CannotRunError, match="set WEIR_HOME"), hold(Path("/proc/weir"), print):
        pass


def test_what_an_earlier_run_left_behind_is_ended(tmp_path: Path) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    ours, theirs = sleeper(home), sleeper(other)
    region = SHARED_MEMORY / f"{region_prefix(home)}0_left"
    region.touch()
    try:
        assert sweep(home, 0.0) == 1
        assert not psutil.pid_exists(ours.pid)
        assert not region.exists()
        assert psutil.Process(theirs.pid).is_running()
        assert theirs.poll() is None
    finally:
        region.unlink(missing_ok=True)
        theirs.kill()
        theirs.wait()
