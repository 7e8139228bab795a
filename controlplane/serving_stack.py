"""Combines the fleet's inventory, its observations and the ledger into the state of the serving stack, for the overview and the API."""

import time
from collections.abc import Mapping
from concurrent.futures import Future
from datetime import UTC, datetime

import structlog
from django.conf import settings

from controlplane.fleet.core.stack_rows import Ledger, PoolServer, Row, rows
from controlplane.fleet.inventory import observations, pool_entries, pool_servers
from controlplane.telemetry.core.query_types import Health, Totals, Window
from controlplane.telemetry.explain.figures import Serving
from controlplane.telemetry.query import answers
from controlplane.telemetry.store import StoreUnavailableError

log = structlog.get_logger(__name__)
WINDOW_S = 300
"""Rates and p95 are of the last five minutes: long enough for a p95, short enough to be now. Of a ledger that is younger, rates are over
the time since its first request."""


def serving_stack(ledger: Future[Ledger | None] | None = None) -> list[Row]:
    """A row for each process, pool and replica, without that of paging. Without the store, only observations.

    `ledger` is what `submit_ledger` returned: a page with other questions has them answered at the same time.
    """
    known = ledger.result() if ledger else _ledger()
    now = datetime.now(UTC)
    return rows(pool_entries(), observations(now), known, now, settings.CONFIG.stale_after_s)


def submit_ledger() -> Future[Ledger | None]:
    return answers.submit_query(_ledger)


def _ledger() -> Ledger | None:
    now_ns = time.time_ns()
    window = Window(now_ns - WINDOW_S * 10**9, now_ns)
    try:
        overall, covered_ns = _overall(answers.store().latency.totals(window)), answers.covered_ns(window, now_ns)
        measured_ns = answers.measured_ns(window, now_ns, covered_ns, answers.recorded_s(window), overall.requests)
        return Ledger(
            measured_ns / 1e9,
            overall,
            answers.health(window, "pool"),
            {(replica.pool, replica.value): replica for replica in answers.replicas(window)},
        )
    except StoreUnavailableError as error:
        log.warning("store.unavailable", query="serving stack", error=str(error))
        return None


def _overall(totals: Totals) -> Health:
    return Health("", totals.requests, totals.errors, totals.e2e_ms.p95 if totals.e2e_ms else None, totals.newest_ns)


def pools_served() -> dict[str, Serving]:
    """Where each pool's figures come from, for the known causes. Its batching is as observed last: that changes with a deploy."""
    seen = {observation.component: observation.figures for observation in observations(datetime.now(UTC))}
    return {server.pool: _serving(server, seen) for server in pool_servers()}


def _serving(server: PoolServer, seen: Mapping[str, Mapping[str, float]]) -> Serving:
    figures = [seen.get(f"{server.pool}/{replica}", {}) for replica in server.replicas]
    windows = [observed["batch_window_ms"] for observed in figures if "batch_window_ms" in observed]
    sizes = [observed["batch_max"] for observed in figures if "batch_max" in observed]
    return Serving(
        pool=server.pool,
        model_name=server.model_name,
        instances=frozenset(filter(None, server.replicas.values())),
        batch_window_ms=max(windows, default=None),
        batch_max=round(max(sizes)) if sizes else None,
    )
