"""Swaps new policy snapshots in, wherever they come from (`snapshot_source.py`). One that cannot be obeyed is refused and logged
once, and the last good one stays. That one is kept on disk too, for a start while nobody else has it.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import structlog

from inference.backends.triton import connector
from inference.contract import snapshot, snapshot_file
from inference.contract.rules import NO_OVERLAY

_log = structlog.get_logger()
_LOOK_S = 0.2
_NO_PARTS: tuple[snapshot.Fault, ...] = ()


class _Pool(msgspec.Struct):
    protocol: str = "triton"  # unless the document says something else


class _Document(msgspec.Struct):
    pools: list[_Pool] = []


def unix_ms() -> int:
    return time.time_ns() // 1_000_000


class SnapshotWatch:
    """`swap` gets the parts of a document that can be obeyed, and answers which parts are not. `kept` is the file of the last
    good document; None keeps none.
    """

    def __init__(
        self, kept: Path | None, swap: Callable[[snapshot.Checked], tuple[snapshot.Fault, ...]], link_local: bool
    ) -> None:
        self.version = self.endpoints_version = self.overlay_version = 0
        self.refused = 0  # documents that could not be obeyed
        self.error = ""  # why the newest document is not obeyed; empty if it is
        self.faults = _NO_PARTS  # parts of the current document that are not obeyed
        self.unknown: tuple[str, ...] = ()  # fields of the current document that this gateway does not know
        self._kept = kept
        self._swap = swap
        self._link_local = link_local
        self._current: snapshot.Checked | None = None  # with an overlay that has not expired
        self._raw = b""
        self._bad = ""  # why the newest document was refused; empty if it is obeyed
        self._said_kept = ""
        self._knows_triton = False

    async def take(self, raw: bytes) -> None:
        """As `offer`, while requests are served: what the first Triton needs is imported before, beside the event loop."""
        if not self._knows_triton and _has_triton(raw):
            self._knows_triton = True
            await asyncio.to_thread(connector.load)
        self.offer(raw)

    def offer(self, raw: bytes, *, keep: bool = True) -> bool:
        """Obey the document, if it can be. Returns whether it is."""
        if raw == self._raw:
            self._bad = self.error = ""
            return True
        try:
            checked = _without_expired(snapshot.check(raw, self._link_local), unix_ms())
            self._check_order(checked.snapshot)
            faults = self._swap(checked)
        except snapshot.SnapshotError as error:
            self.refuse(str(error))
            return False
        except Exception as error:  # noqa: BLE001  (whatever it is, the watch goes on)
            _log.exception("snapshot.failed")
            self.refuse(f"it cannot be obeyed: {type(error).__name__}: {error}")
            return False
        new_faults = [fault for fault in faults if fault not in self.faults]
        self._raw, self._bad, self.error, self.faults = raw, "", "", faults
        for fault in new_faults:
            _log.error("snapshot.part_refused", kind=fault.kind, name=fault.name, reason=fault.reason)
        if checked.unknown != self.unknown:
            self.unknown = checked.unknown
            if self.unknown:
                _log.warning("snapshot.fields_unknown", fields=self.unknown, effect="left out: this gateway is older")
        self._obeying(checked)
        if keep:
            self._keep(raw)
        return True

    def confirm(self) -> None:
        """The document in force is still the newest: nothing hides it any more."""
        self.error = self._bad

    def refuse(self, reason: str, *, count: bool = True) -> None:
        """There is no document, or a bad one: the last good one stays in force."""
        self.refused += count
        self._bad = reason if count else self._bad
        if reason != self.error:
            self.error = reason
            _log.error("snapshot.refused", reason=reason, obeying=self.version or None)

    def restore(self) -> None:
        """Where no document has come yet, obey the one that was kept."""
        if self._current is not None or self._kept is None or not self._kept.is_file():
            return
        reason = self.error
        try:
            raw = self._kept.read_bytes()
        except OSError as error:
            _log.warning("snapshot.kept_unreadable", path=str(self._kept), reason=error.strerror or str(error))
            return
        if self.offer(raw, keep=False):
            self.error = reason
            _log.warning("snapshot.restored", path=str(self._kept), version=self.version)

    def expire(self) -> None:
        """Go back to what owners entered once the overlay has expired."""
        current = self._current
        if current is not None and _expired(current, unix_ms()):
            overlay = current.snapshot.overlay
            _log.warning("overlay.expired", overlay=overlay.version, decision=overlay.decision)
            checked = _without_expired(current, unix_ms())
            self.faults = self._swap(checked)
            self._obeying(checked)

    async def run(self) -> None:
        """Watch the overlay's expiry, on the wall clock."""
        while True:
            self.expire()
            await asyncio.sleep(_LOOK_S)

    def _check_order(self, new: snapshot.Snapshot) -> None:
        """Raises SnapshotError where the document is older than the one that is obeyed, as one is that a `web` gives whose database is
        away. Versions begin anew with a database; the time of writing does not.
        """
        obeyed_ms = self._current.snapshot.written_ms if self._current is not None else 0
        if 0 < new.written_ms < obeyed_ms:
            raise snapshot.SnapshotError(
                f"it is older than the document in force, by {(obeyed_ms - new.written_ms) / 1000:.3g} s: look at the database of the "
                "web process that gave it, or correct the control plane's clock"
            )

    def _obeying(self, checked: snapshot.Checked) -> None:
        new = checked.snapshot
        self._current = checked
        self.version, self.endpoints_version = new.version, checked.snapshot.endpoints_version
        self.overlay_version = new.overlay.version
        _log.info(
            "snapshot.swapped",
            version=new.version,
            endpoints=new.endpoints_version,
            overlay=new.overlay.version,
            models=len(new.models),
            pools=len(new.pools),
        )

    def _keep(self, raw: bytes) -> None:
        if self._kept is None:
            return
        try:
            self._kept.parent.mkdir(parents=True, exist_ok=True)
            snapshot_file.write_text(self._kept, raw)
            self._said_kept = ""
        except OSError as error:
            reason = error.strerror or str(error)
            if reason != self._said_kept:
                self._said_kept = reason
                _log.warning(
                    "snapshot.not_kept",
                    path=str(self._kept),
                    reason=reason,
                    effect="a restart needs the snapshot from elsewhere",
                )


def _has_triton(raw: bytes) -> bool:
    try:
        return any(pool.protocol == "triton" for pool in msgspec.json.decode(raw, type=_Document).pools)
    except msgspec.DecodeError:
        return False  # `offer` says what is wrong with it


def _expired(checked: snapshot.Checked, now_ms: int) -> bool:
    overlay = checked.snapshot.overlay
    return overlay is not NO_OVERLAY and overlay.expires_ms <= now_ms


def _without_expired(checked: snapshot.Checked, now_ms: int) -> snapshot.Checked:
    if not _expired(checked, now_ms):
        return checked
    return checked._replace(snapshot=msgspec.structs.replace(checked.snapshot, overlay=NO_OVERLAY))
