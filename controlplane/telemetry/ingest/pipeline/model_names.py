"""Gives requests of which there are only Triton's spans the model name that clients use."""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import structlog

from controlplane.telemetry.ledger import LedgerRow
from inference.core.snapshot import Snapshot, SnapshotError, decode

log = structlog.get_logger(__name__)

_LOOK_EVERY_S = 1.0


def names_of(snapshot: Snapshot) -> dict[str, str]:
    """The fleet's model by Triton's name for it, without names that serve several models."""
    triton_name = {pool.name: pool.model_name for pool in snapshot.pools}
    models: dict[str, set[str]] = {}
    for model in snapshot.models:
        for route in model.routes:
            models.setdefault(triton_name[route.pool], set()).add(model.name)
    return {name: served.pop() for name, served in models.items() if len(served) == 1}


def named(rows: list[LedgerRow], names: Mapping[str, str]) -> list[LedgerRow]:
    """The rows, with the fleet's names in those that Triton's adapter made."""
    return [
        replace(row, model=names[row.model]) if row.adapter == "triton" and row.model in names else row for row in rows
    ]


class ModelNames:
    """The names in the policy snapshot, read again when the file changes. Where it cannot be read the previous names stay."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names: dict[str, str] = {}
        self._read: tuple[int, int] | None = None
        self._looked_s = -_LOOK_EVERY_S

    def __call__(self) -> Mapping[str, str]:
        now_s = time.monotonic()
        if now_s - self._looked_s >= _LOOK_EVERY_S:
            self._looked_s = now_s
            self._look()
        return self._names

    def _look(self) -> None:
        try:
            stat = self._path.stat()
            if self._read == (stat.st_mtime_ns, stat.st_ino):
                return
            self._read = stat.st_mtime_ns, stat.st_ino
            self._names = names_of(decode(self._path.read_bytes()))
        except FileNotFoundError:
            pass  # no fleet has been published: Triton's names stay
        except (OSError, SnapshotError) as error:
            log.warning("snapshot.unreadable", path=str(self._path), error=str(error))
