"""Checks whether the last minutes of the ledger can be trusted, from observations by the worker and the ledger's newest row."""

from datetime import datetime

from controlplane.fleet.core.stack_rows import Observed, judge
from controlplane.fleet.inventory import observations
from controlplane.slo.core.freshness import Freshness, stale_reason
from controlplane.telemetry.store import Store

MIN_PATIENCE_S = 20.0
"""For so long, s, a request in the ledger proves that requests reach it: as long as an observation counts, where that is longer."""
LASTING_S = 10.0
"""The ledger counts as stale after this time, s, because a request is served a moment before it is in the ledger."""


class FreshnessCheck:
    """Remembers since when the ledger is stale. One per process."""

    def __init__(self, stale_after_s: float) -> None:
        self._stale_after_s = stale_after_s
        self._since: datetime | None = None
        self.newest_s: float | None = None  # when the newest request ended, s since the epoch, as it was last read

    def problem(self, store: Store, now: datetime) -> str:
        """Why the ledger cannot be trusted; empty where it can. Raises StoreUnavailableError and StoreError."""
        newest_ns = store.objectives.newest_end(int(now.timestamp() * 1e9))
        self.newest_s = None if newest_ns is None else newest_ns / 1e9
        by_component = {observed.component: observed for observed in observations(now)}
        telemetry, gateway = by_component.get("telemetry"), by_component.get("gateway")
        seen = freshness(newest_ns, telemetry, gateway, now, self._stale_after_s)
        why = stale_reason(seen, max(MIN_PATIENCE_S, self._stale_after_s))
        self._since = (self._since or now) if why else None
        lasted_s = (now - self._since).total_seconds() if self._since else 0.0
        return why if lasted_s >= LASTING_S or seen.down_s else ""


def freshness(
    newest_ns: int | None, telemetry: Observed | None, gateway: Observed | None, now: datetime, stale_after_s: float
) -> Freshness:
    telemetry_state, gateway_state = judge(telemetry, now, stale_after_s)[0], judge(gateway, now, stale_after_s)[0]
    return Freshness(
        newest_s=None if newest_ns is None else max(0.0, now.timestamp() - newest_ns / 1e9),
        telemetry=telemetry_state,
        gateway=gateway_state,
        gateway_per_s=gateway.figures.get("requests_per_s")
        if gateway and gateway_state in ("up", "degraded")
        else None,
        telemetry_error=telemetry.error if telemetry and telemetry_state == "degraded" else "",
        stored_per_s=telemetry.figures.get("requests_per_s")
        if telemetry and telemetry_state in ("up", "degraded")
        else None,
        down_s=[
            (now - (seen.down_since or seen.observed_at)).total_seconds()
            for seen, state in ((telemetry, telemetry_state), (gateway, gateway_state))
            if seen and state == "down"
        ],
        behind_s=telemetry.figures.get("behind_s") if telemetry and telemetry_state in ("up", "degraded") else None,
    )
