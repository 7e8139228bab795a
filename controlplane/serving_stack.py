"""The serving stack as it really is now: the fleet's inventory and observations beside what the ledger saw. For overview and API."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime

import structlog
from django.conf import settings

from controlplane.fleet.core.stack import Ledger, PoolServer, Row, rows
from controlplane.fleet.inventory import observations, pool_entries, pool_servers
from controlplane.incidents.notify.delivery.health import health as paging
from controlplane.telemetry.core.query_types import Health, Totals, Window
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.core.explain.figures import Serving
from controlplane.telemetry.store import StoreUnavailableError

log = structlog.get_logger(__name__)
WINDOW_S = 300
"""Rates and p95 are of the last five minutes: long enough for a p95, short enough to be now. Of a ledger that is younger, rates are over
the time since its first request."""


def serving_stack() -> list[Row]:
    """A row for each process, pool and replica. The store being away leaves what was observed."""
    now_ns = time.time_ns()
    now = datetime.fromtimestamp(now_ns / 1e9, UTC)
    found = rows(pool_entries(), observations(), _ledger(now_ns), now, settings.CONFIG.stale_after_s)
    return [*found, paging_row(paging.health(now))]


def paging_row(found: paging.Health) -> Row:
    """Whether pages go out: the outbox says, whoever sends them."""
    figures = {"waiting": float(found.figures.pending)}
    if found.share_within_30s_1d is not None:
        figures["within_30_s_ratio"] = found.share_within_30s_1d
    return Row(
        "paging",
        "Paging",
        "paging",
        found.state,
        age_s=found.figures.sender_age_s,
        detail=found.detail,
        figures=figures,
    )


def _ledger(now_ns: int) -> Ledger | None:
    window = Window(now_ns - WINDOW_S * 10**9, now_ns)
    try:
        return Ledger(
            answers.covered_ns(window, now_ns) / 1e9,
            _overall(answers.store().totals(window)),
            answers.health(window, "pool"),
            {(found.pool, found.value): found for found in answers.replicas(window)},
        )
    except StoreUnavailableError as error:
        log.warning("store_unavailable", asked="serving stack", error=str(error))
        return None


def _overall(totals: Totals) -> Health:
    return Health("", totals.requests, totals.errors, totals.e2e_ms.p95 if totals.e2e_ms else None, totals.newest_ns)


def pools_served() -> dict[str, Serving]:
    """Where each pool's figures come from, for the known causes. Its batching is as observed last: that changes with a deploy."""
    seen = {one.component: one.figures for one in observations()}
    return {server.pool: _serving(server, seen) for server in pool_servers()}


def _serving(server: PoolServer, seen: Mapping[str, Mapping[str, float]]) -> Serving:
    figures = [seen.get(f"{server.pool}/{replica}", {}) for replica in server.replicas]
    windows = [one["batch_window_ms"] for one in figures if "batch_window_ms" in one]
    sizes = [one["batch_max"] for one in figures if "batch_max" in one]
    return Serving(
        pool=server.pool,
        model_name=server.model_name,
        instances=frozenset(filter(None, server.replicas.values())),
        batch_window_ms=max(windows, default=None),
        batch_max=round(max(sizes)) if sizes else None,
    )
