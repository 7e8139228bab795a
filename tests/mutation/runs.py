"""Runs tests in a copy of the repository, in a process that has the libraries already."""

import multiprocessing
import os
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from deploy.local.process import ROOT
from tests.mutation.reach import Recorder

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


NOTICED = (1, 2, 3, 4, -signal.SIGXCPU)
"""How a run ends that noticed a change: tests fail, the change cannot be imported, or it takes the tests much longer."""
WAIT_S = 1800.0
"""A run that waits for something for so long has noticed too."""


def passes(at: Path, tests: Sequence[str], cpu_s: float) -> bool:
    """Whether the tests pass in that copy, with so much CPU time at most: how busy the machine is does not count."""
    process = FORKS.Process(target=_run_tests, args=(str(at), tests, cpu_s))
    process.start()
    process.join(WAIT_S)
    if process.exitcode is None:
        process.kill()
        process.join()
        return False
    if process.exitcode not in (0, *NOTICED):
        raise RuntimeError(f"{' '.join(tests[:5])} in {at} ended with {process.exitcode}")
    return process.exitcode == 0


def record(at: Path, tests: Sequence[str], folders: Sequence[str], file: Path) -> None:
    """Run the tests, and save which lines of `folders` each of them runs. Raises SystemExit where one fails."""
    process = FORKS.Process(target=_record, args=(str(at), tests, folders, str(file)))
    process.start()
    process.join()
    if process.exitcode != 0:
        raise SystemExit(f"{' '.join(tests)}: without any change they end with {process.exitcode}")


def _record(at: str, tests: Sequence[str], folders: Sequence[str], file: str) -> None:
    _enter(at)
    recorder = Recorder(Path(at), folders)
    status = pytest.main([*QUIET, *tests], plugins=[recorder])
    recorder.save(Path(file))
    os._exit(int(status))


def _run_tests(at: str, tests: Sequence[str], cpu_s: float) -> None:
    _enter(at)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_s), hard))
    os._exit(int(pytest.main([*QUIET, *tests])))


def _enter(at: str) -> None:
    """Begin in a process that has the libraries, but no module of the copy, nor any of the original that it may have come with."""
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
