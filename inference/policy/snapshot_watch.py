"""Watches the policy snapshot's file and swaps a new snapshot in. One that cannot be obeyed is refused and logged once,
and the last good one stays.

It polls the file, because a stat() every 200 ms costs nothing and works on every file system, and through the symbolic
links by which Kubernetes swaps a ConfigMap.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import structlog

from inference.core import snapshot

_log = structlog.get_logger()


class SnapshotWatch:
    """`swap` gets the parts of a document that can be obeyed."""

    def __init__(self, path: Path, swap: Callable[[snapshot.Checked], None]) -> None:
        self.path = path
        self.version = 0
        self.refused = 0  # documents that could not be obeyed
        self.error = ""  # why the newest document is not obeyed; empty if it is
        self.faults: tuple[snapshot.Fault, ...] = ()  # parts of the current document that are not obeyed
        self._swap = swap
        self._seen: tuple[int, int, int] | None = None

    def look(self) -> None:
        """Read the file if it has changed."""
        try:
            stat = self.path.stat()
            seen = (stat.st_mtime_ns, stat.st_ino, stat.st_size)
            if seen == self._seen:
                return
            raw = self.path.read_bytes()
        except OSError as error:
            self._refuse(f"cannot read {self.path}: {error.strerror or error}", count=False)
            return
        self._seen = seen
        try:
            checked = snapshot.check(raw)
            self._swap(checked)
        except snapshot.SnapshotError as error:
            self._refuse(str(error))
            return
        except Exception as error:  # noqa: BLE001  (whatever it is, the watch goes on)
            _log.exception("snapshot.failed")
            self._refuse(f"it cannot be obeyed: {type(error).__name__}: {error}")
            return
        new, self.faults = checked
        self.version, self.error = new.version, ""
        for fault in self.faults:
            _log.error("snapshot.part_refused", kind=fault.kind, name=fault.name, reason=fault.reason)
        _log.info("snapshot.swapped", version=new.version, models=len(new.models), pools=len(new.pools))

    def _refuse(self, reason: str, count: bool = True) -> None:
        self.refused += count
        if reason != self.error:
            self.error = reason
            _log.error("snapshot.refused", reason=reason, obeying=self.version or None)

    async def run(self, interval_s: float) -> None:
        while True:
            self.look()
            await asyncio.sleep(interval_s)
