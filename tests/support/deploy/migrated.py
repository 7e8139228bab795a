"""A home whose database has its tables. They are made once in each process of tests: that takes seconds, and is a test of its own."""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from deploy.local.process import ROOT


@cache
def _tables() -> Path:
    folder = tempfile.mkdtemp(prefix="weir-tables-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    command = (sys.executable, "manage.py", "migrate", "-v0", "--skip-checks")
    subprocess.run(command, cwd=ROOT, env={**os.environ, "WEIR_HOME": folder, "WEIR_DATABASE_URL": ""}, check=True)
    return Path(folder, "weir.sqlite3")


def migrate_home(home: Path) -> None:
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copy(_tables(), home)
