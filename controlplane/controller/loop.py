"""Judges every objective every few seconds, and hands the alerts to incidents.

Two processes may run. Both count, so that either can take over within a tick; the one that holds the lease writes the results.
Objectives whose requests a tick cannot read are `unknown`, never quiet.
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple
from uuid import uuid4

import structlog
from django.db import DatabaseError, close_old_connections, transaction
from django.utils import timezone
from prometheus_client import Counter, Gauge, Histogram

from controlplane.config import Config
from controlplane.core import lease
from controlplane.core.formatting import shortened
from controlplane.fleet.models import Observation
from controlplane.slo.core.alert import Alert
from controlplane.slo.core.evaluation import Evaluation, unjudged
from controlplane.slo.core.freshness import without_age
from controlplane.slo.core.gaps import Process
from controlplane.slo.core.objective import Objective
from controlplane.slo.evaluate import states
from controlplane.slo.evaluate.evaluator import Evaluator
from controlplane.slo.evaluate.freshness import FreshnessCheck
from controlplane.slo.evaluate.gaps import Gaps
from controlplane.slo.isolation import isolated, reason
from controlplane.slo.models import StoredObjective
from controlplane.slo.models.planned_maintenance import enabled_maintenance
from controlplane.telemetry.store import Store, StoreError, StoreUnavailableError

log = structlog.get_logger(__name__)

LEASE = "controller"
LEASE_LASTS = timedelta(seconds=20)
"""How long another process waits after the leader was killed. A leader that ends gives the lease up."""
DAY_S = 86_400
EVALUATE_EVERY_S = 5.0
"""With it a total outage pages within 75 s."""

Fence = Callable[[], None]
"""Called first in each transaction that only the leader may write. Raises LeaseLostError."""
Observe = Callable[[Sequence[Alert], datetime, Fence], None]

TOOK = Histogram(
    "weir_controller_tick_seconds",
    "A tick, from reading the ledger to incidents.",
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10),
)
TICKS = Counter("weir_controller_ticks", "Ticks.", ["result"])
LEADS = Gauge("weir_controller_leads", "1 where this process leads.")
BEHIND = Gauge("weir_controller_behind_hours", "Hours of the ledger that are not counted yet.")
TALLIES = Gauge("weir_controller_tallies_bytes", "Memory of the tallies.")
STATES = Gauge("weir_objective_states", "Objectives by state.", ["state"])
BUDGET = Gauge("weir_objective_budget_left_ratio", "1: unused, 0: used up.", ["key"])


class Outcome(NamedTuple):
    leads: bool
    evaluations: list[Evaluation]
    error: str


class Controller:
    """One per process. `observe` gets the alerts of each tick."""

    def __init__(self, store: Store, config: Config, observe: Observe) -> None:
        self.holder = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:6]}"
        self.evaluator = Evaluator(store, config.retention_days * DAY_S)
        self.last_step = 0.0  # monotonic
        self.beside: Callable[[], str] = lambda: ""
        """What is wrong with what runs beside it in this process; empty: nothing."""
        self._observe = observe
        self.gateways: Callable[[], Mapping[str, Process]] = dict
        """What gateways have counted, by process."""
        self.at_zero: Callable[[], Collection[str]] = tuple
        """Pools that have no replica because policies have decided so."""
        self._freshness = FreshnessCheck(config.stale_after_s)
        self._gaps = Gaps(store)
        self._stale = ""  # why the ledger was not trusted at this tick
        self._last: list[Evaluation] = []
        self._error = ""
        self._broken: dict[str, str] = {}

    def run(self, stopping: threading.Event) -> None:
        """Tick until `stopping`, and count history in between."""
        while not stopping.is_set():
            due = time.monotonic() + EVALUATE_EVERY_S
            close_old_connections()
            try:
                self.step(timezone.now())
            except DatabaseError as error:
                self._log(f"the database does not answer: {error}")
                TICKS.labels("failed").inc()
            except Exception:
                log.exception("controller.tick_failed")
                TICKS.labels("failed").inc()
            self._sweep(due - EVALUATE_EVERY_S / 5, stopping)
            stopping.wait(max(0.0, due - time.monotonic()))
        with suppress(DatabaseError):
            lease.give_up(LEASE, self.holder, timezone.now())
        close_old_connections()

    def step(self, now: datetime) -> Outcome:
        """One tick at `now`. Raises DatabaseError."""
        began = time.monotonic()
        generation = lease.take(LEASE, self.holder, now, LEASE_LASTS)
        leads = generation > 0
        objectives = self._objectives()
        self._gaps.look(now, self.gateways())
        evaluations, error = self._evaluate(objectives, now)
        uncounted = ""
        if leads:
            fence = partial(lease.fence, LEASE, self.holder, generation)
            try:
                error = self._publish(evaluations, now, error, fence)
                uncounted = self._write_gaps(now, fence)
                self._beat(evaluations, now, began, error, uncounted or self.beside(), fence)
            except lease.LeaseLostError as lost:  # what was to be written is left to the new leader
                log.warning("controller.lease_lost", error=str(lost))
                leads = False
        self._log(error or uncounted)
        self._measure(leads, evaluations, began, error)
        self.last_step = time.monotonic()
        return Outcome(leads, evaluations, error)

    def _objectives(self) -> list[Objective]:
        objectives: list[Objective] = []
        broken: dict[str, str] = {}
        for row in StoredObjective.objects.filter(enabled=True).select_related("owner"):
            value = isolated(row.to_objective)
            if isinstance(value, Exception):
                broken[row.slug] = reason(value)
            else:
                objectives.append(value)
        if broken != self._broken:
            log.warning("controller.objectives_refused", objectives=broken)
        self._broken = broken
        return objectives

    def _evaluate(self, objectives: list[Objective], now: datetime) -> tuple[list[Evaluation], str]:
        now_ns = int(now.timestamp() * 1e9)
        try:
            evaluations = self.evaluator.tick(
                objectives, enabled_maintenance(), now_ns, partial(self._staleness, now), self._gaps.known(now)
            )
        except (StoreUnavailableError, StoreError) as error:
            self._stale, why = "the ledger cannot be read", f"the ledger cannot be read: {error}"
            return _unknown(objectives, self._last, now_ns, why), why
        at_zero = frozenset(self.at_zero())
        self._last = [replace(each, meant=bool(each.idle) and at_zero.issuperset(each.idle)) for each in evaluations]
        return self._last, ""

    def _staleness(self, now: datetime, store: Store) -> str:
        self._stale = self._freshness.problem(store, now)
        return self._stale

    def _publish(self, evaluations: list[Evaluation], now: datetime, error: str, fence: Fence) -> str:
        """Write states for the pages, and hand alerts to incidents. An error of incidents is returned as the tick's error.

        Raises LeaseLostError where another process leads by now; nothing is written then.
        """
        with transaction.atomic():
            fence()
            states.write(evaluations, now, self._broken)
        try:
            self._observe([evaluation.alert for evaluation in evaluations], now, fence)
        except lease.LeaseLostError:
            raise
        except Exception as failure:
            if not self._error:
                log.exception("controller.incidents_failed")
            return error or f"incidents could not be updated: {type(failure).__name__}: {failure}"
        return error

    def _write_gaps(self, now: datetime, fence: Fence) -> str:
        """The error where the ledger cannot be compared with gateways now."""
        try:
            self._gaps.write(now, without_age(self._stale), self._freshness.newest_s, fence)
        except (StoreUnavailableError, StoreError) as failure:
            return f"what was not measured cannot be counted: {failure}"
        return ""

    def _beat(
        self, evaluations: list[Evaluation], now: datetime, began: float, error: str, beside: str, fence: Fence
    ) -> None:
        """`error`: why it has not judged; `beside`: what else is wrong."""
        failed = sum(evaluation.alert.state == "unknown" for evaluation in evaluations) + len(self._broken)
        with transaction.atomic():
            fence()
            Observation.objects.update_or_create(
                component="controller",
                defaults={
                    "kind": Observation.Kind.CONTROLLER,
                    "state": Observation.State.DEGRADED if error or beside else Observation.State.UP,
                    "figures": {
                        "objectives": len(evaluations),
                        "unknown": failed,
                        "tick_ms": round((time.monotonic() - began) * 1000, 1),
                        "uncounted_hours": self.evaluator.behind,
                    },
                    "observed_at": now,
                    "error": shortened(error or beside, 500),
                    **({} if error else {"up_at": now}),
                },
            )

    def _sweep(self, until: float, stopping: threading.Event) -> None:
        """Count history while hours are missing; then one hour again each tick, to find changes. An hour also where a slow store leaves no
        time for it: nothing is judged before history is counted.
        """
        more = not stopping.is_set()
        while more:
            try:
                more = self.evaluator.sweep(time.time_ns()) and time.monotonic() < until and not stopping.is_set()
            except (StoreUnavailableError, StoreError):
                return  # the next tick reports it
        BEHIND.set(self.evaluator.behind)

    def _log(self, error: str) -> None:
        """Log an error once when it begins, and once when it ends."""
        if error and not self._error:
            log.warning("controller.evaluation_failed", error=error)
        if self._error and not error:
            log.info("controller.evaluation_recovered")
        self._error = error

    def _measure(self, leads: bool, evaluations: list[Evaluation], began: float, error: str) -> None:
        TOOK.observe(time.monotonic() - began)
        TICKS.labels("failed" if error else "done").inc()
        LEADS.set(leads)
        TALLIES.set(self.evaluator.nbytes)
        for state in ("firing", "quiet", "unknown"):
            STATES.labels(state).set(sum(evaluation.alert.state == state for evaluation in evaluations))
        BUDGET.clear()
        for evaluation in evaluations:
            if evaluation.alert.budget is not None:
                BUDGET.labels(evaluation.alert.key).set(evaluation.alert.budget.left_share)


def _unknown(objectives: list[Objective], last: list[Evaluation], now_ns: int, why: str) -> list[Evaluation]:
    """Every scope that was judged before, and every other objective without a split."""
    by_slug = {objective.slug: objective for objective in objectives}
    evaluations = [
        unjudged(by_slug[evaluation.alert.objective.slug], evaluation.alert.scope, now_ns, why)
        for evaluation in last
        if evaluation.alert.objective.slug in by_slug
    ]
    named = {evaluation.alert.objective.slug for evaluation in evaluations}
    return evaluations + [
        unjudged(objective, objective.scope, now_ns, why)
        for objective in objectives
        if objective.slug not in named and not objective.split_by
    ]
