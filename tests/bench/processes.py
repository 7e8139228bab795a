"""Child processes of a bench: start, wait until they listen, read their CPU time, stop."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import psutil

from deploy.local.redis import Redis, redis
from inference.contract.snapshot import Snapshot
from inference.contract.snapshot_file import write
from tests.bench.figures import say

ROOT = Path(__file__).resolve().parents[2]
_INHERITED = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV")


class BenchError(Exception):
    """Something measured did not behave; no figure is made of it."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Child:
    """A process group with a log file. `cpu_ns` counts the process and all its descendants."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def cpu_ns(self) -> int:
        """CPU time on any core since start, ns, exact to the scheduler's own count where the kernel gives it."""
        parent = psutil.Process(self.process.pid)
        return sum(_run_ns(process.pid) for process in [parent, *parent.children(recursive=True)])

    def rss_bytes(self) -> int:
        parent = psutil.Process(self.process.pid)
        return sum(process.memory_info().rss for process in [parent, *parent.children(recursive=True)])

    def wait_ready(self, port: int, timeout_s: float = 60) -> None:
        """Return when `port` accepts a connection. Raises BenchError with the log's tail when it never does."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise BenchError(f"{self.name} ended with {self.process.returncode}:\n{self.tail()}")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return
            time.sleep(0.05)
        raise BenchError(f"{self.name} did not listen on {port} within {timeout_s:.0f} s:\n{self.tail()}")

    def tail(self, size: int = 3000) -> str:
        return self.log.read_text(errors="replace")[-size:]

    def ended(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Stop it as an ExitStack's exit callback; when the bench failed, with what it last logged."""
        self.stop()
        if isinstance(error, Exception) and (said := self.tail()):
            say(f"{self.name} said:\n{said}")

    def stop(self, grace_s: float = 10) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(grace_s)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def start(
    stack: ExitStack,
    name: str,
    command: Sequence[str],
    folder: Path,
    env: Mapping[str, str] | None = None,
    *,
    port: int = 0,
    wait_s: float = 60,
    cwd: Path = ROOT,
) -> Child:
    """Start `command` in a process group of its own, which `stack` ends, logging to `folder`/NAME.log, with little of our environment.
    With a `port` it returns once that accepts a connection.
    """
    log = folder / f"{name}.log"
    with log.open("ab") as out:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env={key: os.environ[key] for key in _INHERITED if key in os.environ} | dict(env or {}),
            start_new_session=True,
        )
    child = Child(name, process, log)
    stack.push(child.ended)
    if port:
        child.wait_ready(port, wait_s)
    return child


def start_redis(stack: ExitStack, folder: Path) -> Redis:
    server = redis(free_port(), folder)
    start(stack, "redis", server.command.argv, folder, port=server.port)
    return server


def start_gateway(
    stack: ExitStack, name: str, policy: Snapshot, folder: Path, env: Mapping[str, str], command: Sequence[str] = ()
) -> tuple[int, Child]:
    """Its port. It has a cache where `env` names a Redis. `command` is another server for its application, which gets `--port` appended."""
    port, path = free_port(), folder / f"{name}.json"
    write(path, policy)
    usual = {
        "WEIR_GATEWAY_PORT": str(port),
        "WEIR_SNAPSHOT_PATH": str(path),
        "WEIR_REDIS_URL": "",
        "WEIR_LAME_DUCK_MS": "0",
    }
    started = [*command, "--port", str(port)] if command else [sys.executable, "-m", "inference"]
    return port, start(stack, name, started, folder, {**usual, **env}, port=port)


def _run_ns(pid: int) -> int:
    """Time on a core of every thread of `pid`, ns (`/proc/PID/task/*/schedstat`); ended threads do not count."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            total += int((task / "schedstat").read_bytes().split()[0])
    return total
