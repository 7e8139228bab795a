"""What only a package manager can bring: a test without it is skipped, or fails where everything has been promised (`.ci/run`)."""

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest


def program(*names: str, install: str, also_in: str = "") -> Path:
    """The first of these programs that is installed, in PATH or in the folders that the glob `also_in` matches.

    `install` is the line that would install it.
    """
    for name in names:
        found = shutil.which(name) or next(
            map(str, sorted(Path("/").glob(f"{also_in.strip('/')}/{name}"))) if also_in else iter(()), None
        )
        if found:
            return Path(found)
    return missing(f"{names[0]} is not installed: {install}")


def missing(message: str) -> NoReturn:
    """Skip the test, or fail it where everything has to be there."""
    if os.environ.get("WEIR_REQUIRE_ALL") == "1":
        pytest.fail(message)
    pytest.skip(message)


def chromium() -> Path:
    return program(
        "chromium-headless-shell",
        "chromium",
        "chromium-browser",
        "google-chrome",
        install="apt-get install -y chromium",
    )


def postgres(tool: str = "postgres") -> Path:
    """A program of PostgreSQL's server package: `postgres`, `initdb`, …"""
    return program(tool, install="apt-get install -y postgresql", also_in="/usr/lib/postgresql/*/bin")


def prometheus(tool: str = "prometheus") -> Path:
    """`prometheus` itself, or `promtool`."""
    return program(tool, install="apt-get install -y prometheus")
