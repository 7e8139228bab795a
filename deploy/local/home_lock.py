"""Locks a WEIR_HOME for one launcher, and ends processes that this run or an earlier one left behind."""

import fcntl
import os
import signal
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import psutil

from deploy.local.errors import CannotRunError
from deploy.local.triton import remove_regions

MARK = "WEIR_LAUNCHED_FOR"
"""An environment variable of every started process and its children. Its value is the home that they belong to."""

LOCK_RELEASE_S = 2.0  # a child that a killed launcher was just starting keeps its lock for a moment
GRACE_S = 8.0  # parts of a killed launcher have received SIGTERM, and may be ending


def region_prefix(home: Path) -> str:
    """The prefix of the names of this home's shared memory regions."""
    return f"weir_{zlib.crc32(bytes(home)):08x}_"


@contextmanager
def hold(home: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Lock `home` while the block runs, and end leftover processes before and after. Raises CannotRunError where it is locked."""
    run = home / "run"
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        run.mkdir(exist_ok=True)
        lock = (run / "lock").open("a+")
    except OSError as error:
        raise CannotRunError(
            f"{error.filename} cannot be used ({error.strerror}): set WEIR_HOME to a folder of yours"
        ) from None
    with lock:
        if not _locked(lock, LOCK_RELEASE_S):
            lock.seek(0)
            raise CannotRunError(
                f"weir already runs in {home} (process {lock.read().strip() or 'unknown'}): "
                "stop it first, or set WEIR_HOME to another folder"
            )
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        if ended := sweep(home, GRACE_S):
            say(f"ended {ended} processes that an earlier run left behind")
        try:
            yield
        finally:
            sweep(home, 0.0)


def _locked(lock: IO[str], timeout_s: float) -> bool:
    deadline_s = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline_s:
                return False
            time.sleep(0.05)
        else:
            return True


def sweep(home: Path, grace_s: float) -> int:
    """End every process that was started for `home`, and remove its shared memory. Returns how many were killed."""
    _, remaining = psutil.wait_procs(_started_for(home), timeout=grace_s)
    killed = 0
    while remaining:  # again, because children may have been started meanwhile
        for process in remaining:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
                killed += 1
        psutil.wait_procs(remaining, timeout=5.0)
        remaining = _started_for(home)
    remove_regions(region_prefix(home))
    return killed


def _started_for(home: Path) -> list[psutil.Process]:
    processes = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == str(home):
                processes.append(process)
    return processes
