"""Runs tests in a copy of the repository, in a process that has the libraries already."""

import multiprocessing
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from deploy.local.process import ROOT

OWN = frozenset({"controlplane", "deploy", "forecasting", "inference", "tests"})
FORKS = multiprocessing.get_context("forkserver")
"""Imports the libraries once. That is most of the time of a run of small tests."""
FORKS.set_forkserver_preload([
    "aiohttp", "clickhouse_connect", "django.test", "grpc", "httpx", "hypothesis.strategies", "jinja2", "numpy", "openai", "psycopg",
    "pyarrow", "pytest",
])  # fmt: skip
QUIET = (
    "-q", "-x", "--tb=no", "--no-header", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:schemathesis", "-p", "no:playwright",
    "-m", "not processes and not soak and not cluster and not servers",
)  # fmt: skip


def passes(at: Path, tests: Sequence[str], timeout_s: float) -> bool:
    """Whether the tests pass in that copy. Tests that do not end have noticed."""
    process = FORKS.Process(target=_run_tests, args=(str(at), tests))
    process.start()
    process.join(timeout_s)
    if process.exitcode is None:
        process.kill()
        process.join()
        return False
    if process.exitcode not in (0, 1, 2):  # 2: the change cannot even be imported
        raise RuntimeError(f"{' '.join(tests)} in {at} ended with {process.exitcode}")
    return process.exitcode == 0


def _run_tests(at: str, tests: Sequence[str]) -> None:
    """In a process that has the libraries, but no module of the copy, nor any of the original that it may have come with."""
    for name in [name for name in sys.modules if name.partition(".")[0] in OWN]:
        del sys.modules[name]
    sys.path[:] = [at, *(path for path in sys.path if path not in ("", str(ROOT)))]
    os.chdir(at)
    shared = os.environ.get("WEIR_SHARED_DIR", str(ROOT.parent / "shared"))
    os.environ.update(PYTHONPATH=at, WEIR_HOME=f"{at}/.weir", WEIR_SHARED_DIR=shared)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    os._exit(int(pytest.main([*QUIET, *tests])))
