"""Runs kustomize."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.support import need

FOLDER = Path(__file__).resolve().parents[3] / "deploy" / "kubernetes"
OLDEST_KUBECTL = (1, 21)  # with kustomize 4, which reads `resources` that are folders


def built(folder: str) -> list[dict[str, Any]]:
    """The objects of a folder of deploy/kubernetes. Without a kubectl that is new enough the test is skipped, or fails in CI."""
    kubectl = shutil.which("kubectl") or need.missing("kubectl is not installed: install 1.21 or later")
    version = subprocess.run([kubectl, "version", "--client"], capture_output=True, text=True, check=False).stdout
    known = re.search(r"v?(\d+)\.(\d+)", version)
    if known is None or (int(known[1]), int(known[2])) < OLDEST_KUBECTL:
        need.missing(f"kubectl is too old ({version.strip()}): install 1.21 or later")
    made = subprocess.run([kubectl, "kustomize", str(FOLDER / folder)], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    assert "Warning" not in made.stderr, made.stderr
    return list(yaml.safe_load_all(made.stdout))
