"""One launcher per WEIR_HOME, and nothing left behind: not by this run, nor by an earlier one that was killed."""

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
"""In the environment of everything that is started here, and of its children: the home that it belongs to."""

GOING_S = 2.0  # a child that a killed launcher was just making holds its lock for a moment
LAST_WORDS_S = 8.0  # parts of a launcher that was killed have been asked to end, and may be doing so


def region_prefix(home: Path) -> str:
    """What the names of this home's shared memory regions begin with."""
    return f"weir_{zlib.crc32(bytes(home)):08x}_"


@contextmanager
def held(home: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold `home` for this process alone, clean at the start and at the end. Raises CannotRunError where another one holds it."""
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
        if not _locked(lock, GOING_S):
            lock.seek(0)
            raise CannotRunError(
                f"weir already runs in {home} (process {lock.read().strip() or 'unknown'}): "
                "stop it first, or set WEIR_HOME to another folder"
            )
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        if ended := sweep(home, LAST_WORDS_S):
            say(f"ended {ended} processes that an earlier run left behind")
        try:
            yield
        finally:
            sweep(home, 0.0)


def _locked(lock: IO[str], patience_s: float) -> bool:
    deadline_s = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline_s:
                return False
            time.sleep(0.05)
        else:
            return True


def sweep(home: Path, patience_s: float) -> int:
    """End every process that was started for `home`, and remove its shared memory. How many had to be killed."""
    _, remaining = psutil.wait_procs(_started_for(home), timeout=patience_s)
    killed = 0
    while remaining:  # again, since what dies may have had children that were born meanwhile
        for process in remaining:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
                killed += 1
        psutil.wait_procs(remaining, timeout=5.0)
        remaining = _started_for(home)
    remove_regions(region_prefix(home))
    return killed


def _started_for(home: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == str(home):
                found.append(process)
    return found
