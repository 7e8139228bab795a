"""Runs tests in a copy of the repository, in a process that has the libraries already, or the collected tests too."""

import gc
import multiprocessing
import os
import resource
import signal
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType, FunctionType

import pytest

from deploy.local.process import ROOT
from tests.mutation.changes import Change
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


NOTICED = (1, 2, 3, 4)
"""How a run ends that noticed a change: tests fail, or the change cannot be imported."""
LATE = (-signal.SIGXCPU, -signal.SIGKILL, -signal.SIGALRM)
"""How one ends that takes much more CPU time, or waits for WAIT_S."""
NO_CODE, NO_TEST = 100, 101
"""The change is not within a function; and the test that failed also fails without it."""
WAIT_S = 900


class Tries:
    """Tries changes with tests of a copy. One within a function is put where its code is, in a fork of a process that has collected the
    tests: that takes a hundredth of the time. `late` are those that were noticed by time alone.
    """

    def __init__(self, at: Path, tests: Sequence[str]) -> None:
        self._at, self.late = at, list[Change]()
        self._pipe, theirs = FORKS.Pipe()
        self._process = FORKS.Process(target=_serve, args=(str(at), tests, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self._pipe.recv()  # it has imported all, and reads no file that is changed from now on

    def survives(self, change: Change, tests: Sequence[str], cpu_s: float, *, at_import: bool) -> bool:
        code = NO_CODE
        if not at_import:
            self._pipe.send((change, tests, int(cpu_s)))
            code = self._pipe.recv()
        if code == NO_CODE:
            code = self._in_a_new_process(change, tests, cpu_s)
        if code in LATE:
            self.late.append(change)
        elif code not in (0, *NOTICED):
            raise RuntimeError(f"{change}: {' '.join(tests[:5])} in {self._at} ended with {code}")
        return code == 0

    def _in_a_new_process(self, change: Change, tests: Sequence[str], cpu_s: float) -> int:
        """Where the change counts at import."""
        file = self._at / change.path
        original = file.read_text()
        try:
            _write(file, change.source)
            process = FORKS.Process(target=_run_tests, args=(str(self._at), tests, cpu_s))
            process.start()
            process.join(WAIT_S)
            if process.exitcode is None:
                process.kill()
                process.join()
            assert process.exitcode is not None
            return process.exitcode
        finally:
            _write(file, original)


def _write(file: Path, source: str) -> None:
    """Also where the file had the same size within the same second, which is all that Python compares."""
    file.write_text(source)
    for stale in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
        stale.unlink()


class _Serving:
    """A plugin of pytest that runs collected tests in forks, with the changes that come through a pipe."""

    def __init__(self, at: str, pipe: Connection) -> None:
        self._at, self._pipe, self._failed = at, pipe, False
        self._sound: set[str] = set()
        """Tests that have noticed a change, and pass in a fork without any."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed |= report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items: dict[str, list[pytest.Item]] = {}
        for item in session.items:
            items.setdefault(item.nodeid.partition("[")[0], []).append(item)
        gc.unfreeze()
        functions: dict[str, list[FunctionType]] = {}
        for each in gc.get_objects():
            if type(each) is FunctionType:
                functions.setdefault(each.__code__.co_filename, []).append(each)
        self._pipe.send(None)
        while True:
            change, tests, cpu_s = self._pipe.recv()
            run = [item for name in tests for item in items[name]]
            file = f"{self._at}/{change.path}"
            code, at = self._try(run, cpu_s, functions.get(file, []), change.source, file)
            if code == 1 and run[at].nodeid not in self._sound:
                if self._try(run[at : at + 1], cpu_s)[0]:
                    code = NO_TEST
                self._sound.add(run[at].nodeid)
            self._pipe.send(code)

    def _try(
        self,
        items: Sequence[pytest.Item],
        cpu_s: int,
        functions: Sequence[FunctionType] = (),
        source: str = "",
        file: str = "",
    ) -> tuple[int, int]:
        """How the tests end in a fork with the source, or without a change where there is no file, and the number of the one that fails."""
        reads, writes = os.pipe()
        if pid := os.fork():
            os.close(writes)
            with os.fdopen(reads, "rb") as pipe:
                failed = pipe.read()
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), int(failed or b"0")
        signal.alarm(WAIT_S)
        _limit(cpu_s)
        if file and not _put(functions, Path(file).read_text(), source, file):
            os._exit(NO_CODE)
        for number, (item, following) in enumerate(pairwise((*items, None))):
            assert item is not None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                os.write(writes, b"%d" % number)
                os._exit(1)
        os._exit(0)


def _put(functions: Sequence[FunctionType], before: str, after: str, file: str) -> bool:
    """Give functions their changed code. False where none has any, or one runs at import."""
    codes = [dict(_codes(compile(source, file, "exec"))) for source in (before, after)]
    put = False
    for function in functions:
        name = function.__code__.co_qualname, function.__code__.co_firstlineno
        if name in codes[1] and codes[0][name] != codes[1][name]:
            try:
                function.__code__ = codes[1][name]
            except ValueError:  # it has other variables of the function around it
                return False
            put = True
    return put


def _codes(code: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield (each.co_qualname, each.co_firstlineno), each
            yield from _codes(each)


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
    _limit(cpu_s)
    os._exit(int(pytest.main([*QUIET, *tests])))


def _serve(at: str, tests: Sequence[str], pipe: Connection) -> None:
    _enter(at)
    os._exit(int(pytest.main([*QUIET, *tests], plugins=[_Serving(at, pipe)])))


def _limit(cpu_s: float) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_s), hard))


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
