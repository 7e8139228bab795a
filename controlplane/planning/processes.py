"""Runs functions in processes of their own, each call with a time limit and bounded memory.

Processes, because fits hold the interpreter's lock, and because only a process can be ended in the middle of a fit. A call that
takes too long, or ends its process, fails alone: the others go on.
"""

import contextlib
import ctypes
import logging
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")
ItemT = TypeVar("ItemT")

POLL_S = 0.5
_PR_SET_PDEATHSIG = 1
_MIB = 2**20


class CallFailedError(RuntimeError):
    """The call raised, took too long, needed too much memory, or ended its process. Permanent for this input."""


@dataclass(slots=True)
class _Child(Generic[ItemT]):
    process: multiprocessing.process.BaseProcess
    pipe: Connection
    item: ItemT
    ends_s: float


class Processes(Generic[T, R]):
    """Calls one function of a module with many arguments, in `count` processes. Arguments and results are pickled.

    `limit_s` is the time of one call, `memory_mib` the memory of one process beyond what it has loaded at its start.
    """

    def __init__(self, function: Callable[[T], R], count: int, limit_s: float, memory_mib: int) -> None:
        self._function, self._count, self._limit_s, self._memory_mib = function, count, limit_s, memory_mib
        self._context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang

    def map(
        self, items: Iterable[ItemT], argument_of: Callable[[ItemT], T], poll: Callable[[], None]
    ) -> Iterator[tuple[ItemT, R | CallFailedError]]:
        """Each item with the result of its argument, which alone goes to the processes, as they come. `poll` is called every POLL_S or
        more often, and may raise to end it all.
        """
        waiting = iter(items)
        busy: list[_Child[ItemT]] = []
        idle: list[_Child[ItemT]] = []
        try:
            exhausted = False
            while True:
                poll()
                while not exhausted and len(busy) < self._count:
                    try:
                        item = next(waiting)
                    except StopIteration:
                        exhausted = True
                        break
                    child = idle.pop() if idle else self._started(item)
                    busy.append(child)
                    child.item, child.ends_s = item, time.monotonic() + self._limit_s
                    # Beside the others, because a pipe that nobody reads takes no more than it holds.
                    threading.Thread(target=_send, args=(child.pipe, argument_of(item)), daemon=True).start()
                if not busy:
                    return
                ready = set(wait([child.pipe for child in busy], POLL_S))
                for child in list(busy):
                    if child.pipe not in ready and time.monotonic() < child.ends_s:
                        continue
                    busy.remove(child)
                    result = self._received(child) if child.pipe in ready else self._too_long(child)
                    if child.process.is_alive() and not child.pipe.closed:
                        idle.append(child)
                    yield child.item, result
        finally:
            for child in (*busy, *idle):
                _end(child)

    def _started(self, item: ItemT) -> _Child[ItemT]:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=_serve, args=(theirs, self._function, self._memory_mib, os.getpid()), daemon=True
        )
        process.start()
        theirs.close()
        return _Child(process, ours, item, 0.0)

    def _received(self, child: _Child[Any]) -> R | CallFailedError:
        try:
            good, value = child.pipe.recv()
        except (EOFError, OSError):
            _end(child)
            code = child.process.exitcode
            return CallFailedError(f"its process ended ({_meaning(code)})")
        return value if good else CallFailedError(value)

    def _too_long(self, child: _Child[Any]) -> CallFailedError:
        _end(child)
        return CallFailedError(f"it took longer than {self._limit_s:g} s")


def _serve(pipe: Connection, function: Callable[[Any], Any], memory_mib: int, parent: int) -> None:
    """In the child: answer calls until the parent closes the pipe."""
    os.setsid()  # ends with all that it starts, such as Stan's processes
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    os.nice(10)  # the worker also sends pages
    logging.disable(logging.WARNING)  # what fails is said by its result
    limited = False
    while True:
        try:
            argument = pipe.recv()
        except EOFError:
            return
        if not limited:  # once what it needs is imported
            used = int(open("/proc/self/statm").read().split()[5]) * resource.getpagesize()  # noqa: SIM115, PTH123
            most = used + memory_mib * _MIB
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))
            limited = True
        try:
            answer: tuple[bool, Any] = (True, function(argument))
        except MemoryError:
            answer = (False, f"it needed more than {memory_mib} MiB")
        except Exception as error:  # noqa: BLE001  (whatever a fit raises concerns this call alone)
            answer = (False, f"{type(error).__name__}: {error}"[:500])
        pipe.send(answer)


def _send(pipe: Connection, argument: Any) -> None:
    with contextlib.suppress(OSError):  # it has ended: its pipe then reads as ended, too
        pipe.send(argument)


def _end(child: _Child[Any]) -> None:
    """End the process and all that it started."""
    if child.process.pid is not None:
        try:
            os.killpg(child.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            child.process.kill()
    child.process.join(5.0)
    child.pipe.close()  # whatever was written to it has failed by now


def _meaning(code: int | None) -> str:
    if code is None:
        return "it does not say how"
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
