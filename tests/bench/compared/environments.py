"""Environments of the peers we are measured beside: each its own, from a locked and hashed list, never mixed with ours.

Locked again with `uv pip compile -U --universal --python-version 3.11 --generate-hashes --no-header --no-annotate
requirements/NAME.in -o requirements/NAME.txt`.
"""

import shutil
import subprocess
from pathlib import Path

from tests.bench.figures import say
from tests.bench.processes import ROOT


def bin_folder(name: str) -> Path | None:
    """The `bin` of peer environment `name` (`requirements/NAME.txt` in `.venv-NAME`), made or brought up to date first.

    None, after a line on stderr, where it cannot be installed: its figures are then left out.
    """
    requirements = ROOT / "requirements" / f"{name}.txt"
    environment = ROOT / f".venv-{name}"
    stamp = environment / ".installed"
    if stamp.exists() and stamp.read_bytes() == requirements.read_bytes():
        return environment / "bin"
    uv = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
    python = str(environment / "bin" / "python")
    say(f"installing {requirements.name} into {environment.name}")
    try:
        if not Path(python).exists():
            subprocess.run([uv, "venv", "-q", "--python", "3.11", str(environment)], check=True, timeout=120)
        subprocess.run(
            [uv, "pip", "sync", "-q", "--require-hashes", "--python", python, str(requirements)],
            check=True,
            timeout=900,
        )
    except (OSError, subprocess.SubprocessError) as error:
        say(f"{requirements.name} could not be installed, its figures are left out: {error}")
        return None
    stamp.write_bytes(requirements.read_bytes())
    return environment / "bin"
