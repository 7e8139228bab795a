"""What the code reads, what the pages say, and the list of names that each process knows agree."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic_settings import BaseSettings

from controlplane.lane.config import LaneConfig
from controlplane.telemetry.config import IngestConfig
from deploy.local.options import Options
from deploy.local.process import ROOT
from deploy.local.traffic.client import Settings
from inference.config import Config
from inference.contract.settings.names import BEGINNINGS, NAMES

CLASSES: tuple[type[BaseSettings], ...] = (Config, IngestConfig, LaneConfig, Options, Settings)
"""Those of telemetry and the lane have the control plane's."""
PAGES = ("docs/*.md", "README.md", "CONTRIBUTING.md", "SECURITY.md")


def names_in(*patterns: str) -> set[str]:
    """Whole names in the files: neither beginnings, such as WEIR_TLS of several, nor names with a place for more."""
    listed = subprocess.run(("git", "ls-files", *patterns), cwd=ROOT, capture_output=True, text=True, check=True)
    texts = [(ROOT / line).read_text() for line in listed.stdout.splitlines() if (ROOT / line).is_file()]
    found = {name for text in texts for name in re.findall(r"\bWEIR_[A-Z0-9_]*[A-Z0-9]\b(?!_)", text)}
    beginnings = {name for name in found if any(known.startswith(f"{name}_") for known in NAMES)} - NAMES
    return {name for name in found - beginnings if not name.startswith(BEGINNINGS)}


def declared() -> set[str]:
    return {f"WEIR_{name.upper()}" for each in CLASSES for name in each.model_fields}


def test_each_setting_that_is_declared_is_known() -> None:
    assert declared() - NAMES == set()


def test_the_code_names_none_that_is_not_known() -> None:
    code = names_in("controlplane", "inference", "forecasting", "deploy", "manage.py", "weir", "Makefile", ".ci")
    assert code - NAMES - {"WEIR_VARIABLE"} == set()


def test_no_page_names_one_that_is_not_known() -> None:
    assert names_in(*PAGES) - NAMES == set()


def test_each_that_is_known_is_read_somewhere_and_has_a_page() -> None:
    assert NAMES - declared() - names_in("*.py", "Makefile") == set()
    of_tests = names_in("tests") - names_in("controlplane", "inference", "deploy")
    inside = {"WEIR_WORKER"}  # from the supervisor of the gateway's workers to each of them
    assert NAMES - names_in(*PAGES) - of_tests - inside == set()


@pytest.mark.parametrize(
    ("process", "broken"),
    [
        (("-m", "inference"), {"WEIR_TLS_CERTIFICATE": "/none", "WEIR_TLS_KEY": "/none"}),
        (("-m", "controlplane.telemetry"), {"WEIR_OTLP_CERTIFICATE": "/none", "WEIR_OTLP_KEY": "/none"}),
        (("-m", "controlplane.controller"), {"WEIR_STORE_DSN": ""}),
        (("-m", "controlplane.lane"), {"WEIR_LANE_CERTIFICATE": "/none", "WEIR_LANE_KEY": "/none"}),
        (("manage.py", "nothing"), {}),
    ],
)
def test_each_process_says_once_which_it_does_not_know(
    process: tuple[str, ...], broken: dict[str, str], tmp_path: Path
) -> None:
    """Each is `broken`, so that it ends by itself."""
    environment = {**os.environ, "WEIR_HOME": str(tmp_path), "WEIR_REDIS_ULR": "redis://:hunter2@host", **broken}
    ended = subprocess.run(
        (sys.executable, *process), cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode
    said = [line for line in ended.stderr.splitlines() if "settings.not_known" in line]
    assert [line.count("WEIR_REDIS_ULR (meant is WEIR_REDIS_URL?)") for line in said] == [1], ended.stderr
    assert "hunter2" not in ended.stderr
