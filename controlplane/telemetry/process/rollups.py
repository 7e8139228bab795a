"""Fills rollups beside the receiver, in a thread that waits for the store nearly all the time. What there is to do is in the store."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import structlog

from ..store.client import Connection
from ..store.errors import StoreError, StoreUnavailableError
from ..store.maintenance.rollups import DEAD_KEPT_S, TOUCHED_S, RollupFiller, Stretch, together

log = structlog.get_logger(__name__)

ROUND_S = 10.0
"""After so long the rest is counted again, so that the newest stretches do not wait for old ones, s."""
BEHIND_S = 900
"""Stretches that ended longer ago than this, and are still due, are a backlog, s."""
LOG_EVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far rollups are filled, in stretches: `due` now (None before the first look), and `built` since the process started.

    `backlog` of them ended more than BEHIND_S ago, and at most `begun` were, since there was none.
    """

    due: int | None = None
    built: int = 0
    backlog: int = 0
    begun: int = 0
    oldest_s: int = 0
    """Start of the oldest stretch that is due, s since the epoch; 0 without any."""
    failed: str = ""

    @property
    def done_ratio(self) -> float:
        """How much of the backlog is filled, 0 to 1."""
        return 1 - self.backlog / self.begun if self.begun else 1.0

    @property
    def text(self) -> str:
        if self.due is None:
            return "starting"
        if self.failed:
            return f"not filled: {self.failed}"[:200]
        if not self.backlog:
            return "ok"
        oldest = datetime.fromtimestamp(self.oldest_s, UTC).strftime("%Y-%m-%d %H:%M")
        return f"filling, {self.done_ratio:.0%} done: {self.backlog} stretches back to {oldest} UTC are left"


class Recording:
    """For how long this process received, by stretches of TOUCHED_S, of what is not stored yet: seconds by start of the stretch."""

    def __init__(self, since_s: float) -> None:
        self._since_s = since_s
        self.seconds: dict[int, float] = {}

    def until(self, now_s: float, receives: bool = True) -> None:
        """Time in which the machine slept, a clock was set, or spans were refused, is not recorded."""
        began_s, self._since_s = self._since_s, now_s
        if not receives or not 0 < now_s - began_s <= TOUCHED_S:
            return
        edge_s = int(now_s) // TOUCHED_S * TOUCHED_S
        for start_s, length_s in ((edge_s - TOUCHED_S, edge_s - began_s), (edge_s, now_s - max(began_s, edge_s))):
            if length_s > 0:
                self.seconds[start_s] = self.seconds.get(start_s, 0.0) + length_s


class Rollups:
    """Fills until it is stopped. While the store is away it tries again; nothing is lost by that. `refusal` says why spans would be
    refused now; empty where they would be accepted.
    """

    def __init__(self, dsn: str, retention_days: int, every_s: float, refusal: Callable[[], str]) -> None:
        self._filler = RollupFiller(Connection(dsn, pool=1))
        self._retention_days, self._every_s, self._refusal = retention_days, every_s, refusal
        self._stopped = threading.Event()
        self._seen = frozenset[Stretch]()
        self._dropped_s = time.monotonic()
        self._logged_s = 0.0
        self._recording = Recording(time.time())
        self.progress = Progress()
        # A daemon, because a statement may take a minute and needs no orderly end.
        self._thread = threading.Thread(target=self._run, name="rollups", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._every_s):
            self._recording.until(time.time(), receives=not self._refusal())
            try:
                self._filler.insert_recorded(self._recording.seconds)
                self._recording.seconds.clear()
                self.step(time.time_ns())
            except StoreUnavailableError as error:
                self._failed(str(error), "it is tried again")
            except StoreError as error:
                self._failed(str(error), "a long page reads requests instead")
            except Exception as error:
                log.exception("rollups.fill_failed")
                self._failed(f"{type(error).__name__}: {error}", "a long page reads requests instead")

    def _failed(self, reason: str, remedy: str) -> None:
        if not self.progress.failed and self.progress.due is not None:
            log.warning("rollups.fill_failed", reason=reason, remedy=remedy)
        self.progress = replace(self.progress, failed=reason)

    def step(self, now_ns: int) -> None:
        """Fill for ROUND_S. A stretch is filled if nothing was written into it since the last look: its rows are visible by then.

        It rests as long as each statement took, because pages use the same store.
        """
        due = self._filler.due(now_ns, self._retention_days)
        ready = [stretch for stretch in due if stretch in self._seen]
        self._note(due, now_ns)
        stop_s = time.monotonic() + ROUND_S
        for run in together(ready):
            began_s = time.monotonic()
            if began_s >= stop_s or self._stopped.is_set():
                break
            built = self._filler.fill(run, now_ns)
            self.progress = replace(self.progress, built=self.progress.built + built)
            self._stopped.wait(time.monotonic() - began_s)
        self._seen = frozenset(due)
        if time.monotonic() - self._dropped_s > DEAD_KEPT_S:
            self._dropped_s = time.monotonic()
            self._filler.drop_dead_builds()

    def _note(self, due: list[Stretch], now_ns: int) -> None:
        before = self.progress
        backlog = sum(stretch.end_s * 10**9 < now_ns - BEHIND_S * 10**9 for stretch in due)
        begun = max(before.begun, backlog) if backlog else 0
        self.progress = replace(
            before,
            due=len(due),
            backlog=backlog,
            begun=begun,
            oldest_s=min((stretch.start_s for stretch in due), default=0),
            failed="",
        )
        if backlog and time.monotonic() - self._logged_s > LOG_EVERY_S:
            self._logged_s = time.monotonic()
            log.info("rollups.catching_up", progress=self.progress.text)
        elif before.backlog and not backlog:
            log.info("rollups.filled", built=self.progress.built)
