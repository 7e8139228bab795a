"""`weir bench` as people and CI jobs run it."""

import subprocess
from pathlib import Path

from deploy.local.ports import LOOPBACK
from deploy.local.process import ROOT


def command(port: int, *given: str) -> list[str]:
    return [str(ROOT / "weir"), "bench", f"http://{LOOPBACK}:{port}/v1", *given]


def bench(port: int, *given: str, cwd: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command(port, *given), capture_output=True, text=True, check=False, cwd=cwd, timeout=240)
