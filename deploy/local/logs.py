"""Follows a part's log file: keeps it small, and picks the important lines for the terminal."""

import re
import time
from pathlib import Path

LIMIT_BYTES = 4 * 2**20  # about a day of a busy part; one such file is kept beside it
CHUNK_BYTES = 256 * 2**10
SHOWN_LINES = 5  # per part and period: the rest is in the file
PERIOD_S = 10.0

# Triton logs the first on every machine without a GPU, the second for each batch of spans while telemetry is away.
NOISE = re.compile(r"CudaDriverHelper has not been initialized|otlp_http_exporter")

# structlog's and logging's levels, tracebacks, and Triton's error lines (`E1120 23:54:24.469995 …`)
IMPORTANT = re.compile(
    r"\[(error|critical)\b|\b(ERROR|CRITICAL)\b|^Traceback \(most recent call last\)|^E\d{4} \d\d:|Segmentation fault"
)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Log:
    """A file that a part appends to. Call `follow` regularly: it reads the file and keeps it small."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = path.stat().st_size if path.exists() else 0
        self._partial = b""
        self._period_start = 0.0
        self._shown = 0

    def follow(self) -> list[str]:
        """The important lines since the last call, at most SHOWN_LINES per period. Truncates a file that is too large."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self._read)
            new = file.read(CHUNK_BYTES)
        self._read += len(new)
        if len(new) < CHUNK_BYTES and self._read > LIMIT_BYTES:  # caught up with it
            self._cut()
        *lines, self._partial = (self._partial + new).split(b"\n")
        return self._few(
            [line for line in (_plain(raw) for raw in lines) if IMPORTANT.search(line) and not NOISE.search(line)]
        )

    def _cut(self) -> None:
        """Lines that the part writes between the copy and the truncation are lost. In return, parts need no log rotation."""
        self.path.with_suffix(".log.1").write_bytes(self.path.read_bytes())
        with self.path.open("r+b") as file:
            file.truncate(0)
        self._read = 0

    def _few(self, lines: list[str]) -> list[str]:
        now = time.monotonic()
        if now - self._period_start > PERIOD_S:
            self._period_start, self._shown = now, 0
        room = max(SHOWN_LINES - self._shown, 0)
        overflowing = len(lines) > room > 0
        self._shown += len(lines)
        return lines[:room] + ([f"… more in {self.path}"] if overflowing else [])


def _plain(raw: bytes) -> str:
    return COLOUR.sub("", raw.decode(errors="replace")).rstrip()
