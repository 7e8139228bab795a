"""Attributions of several alerts at once, within a deadline: a page goes out without one rather than late."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog

from controlplane.incidents.act.changes import FIRST_REVISION, revision_identity
from controlplane.incidents.attribution.questions import asked, causes, value
from controlplane.incidents.models import ChangeRecord, Incident
from controlplane.serving_stack import pools_served
from controlplane.slo.core.alert import Alert
from controlplane.slo.core.count_plan import cut
from controlplane.telemetry.query import answers
from controlplane.telemetry.store import StoreError, StoreUnavailableError

log = structlog.get_logger(__name__)

DEADLINE_S = 5.0
"""For all that open in one tick: of the 75 s that an outage may take to reach a person."""
NO_TIME = f"the store did not answer within {DEADLINE_S:.0f} s"
AWAY = "the store does not answer"
NOT_IN_LEDGER = "the ledger has no bad request in this scope"
LATE_DEADLINE_S = 2.0
NO_REQUESTS = "it is judged from a server's metrics, which know no requests"
MOST_LATE = 5  # filled in, or measured again, per tick
FRESH_NS = 30 * 10**9  # the present is measured again after this
CHANGES_BEFORE = timedelta(minutes=30)
CHANGES_AFTER = timedelta(minutes=1)  # the first bad minute is known to the minute
MOST_CHANGES = 5

_lanes = ThreadPoolExecutor(4, thread_name_prefix="attribution")


@dataclass(frozen=True, slots=True)
class Found:
    """`missing`: why there is none; empty where there is."""

    attribution: dict[str, Any] | None = None
    missing: str = ""


def gather(alerts: Sequence[Alert], deadline_s: float = DEADLINE_S) -> dict[str, Found]:
    """By alert key. Never raises, and never takes much longer than `deadline_s`."""
    until = time.monotonic() + deadline_s
    running = {alert.key: _lanes.submit(_ask, alert) for alert in alerts}
    serving = pools_served() if alerts else {}
    beside = {alert.key: _lanes.submit(causes, alert, serving) for alert in alerts}
    found = {key: _answer(key, future, until) for key, future in running.items()}
    named = {key: _causes(key, future, until) for key, future in beside.items()}
    return {alert.key: _frozen(found[alert.key], named[alert.key], alert.scope) for alert in alerts}


def _ask(alert: Alert) -> Found:
    if cut(alert.objective.indicator) is None:
        return Found(missing=NO_REQUESTS)
    try:
        attribution = asked(answers.store(), alert)
    except StoreUnavailableError:
        return Found(missing=AWAY)
    except StoreError as error:
        log.warning("attribution refused by the store", key=alert.key, error=str(error))
        return Found(missing="the store refused the question")
    return Found(attribution) if attribution else Found(missing=NOT_IN_LEDGER)


def _causes(key: str, future: "Future[list[dict[str, Any]]]", until: float) -> list[dict[str, Any]]:
    """Nice to have: a page does without."""
    try:
        return future.result(max(0.0, until - time.monotonic()))
    except (TooLate, StoreUnavailableError, StoreError):
        future.cancel()
    except Exception:
        log.exception("no known causes", key=key)
    return []


def _answer(key: str, future: "Future[Found]", until: float) -> Found:
    try:
        return future.result(max(0.0, until - time.monotonic()))
    except TooLate:
        future.cancel()
        return Found(missing=NO_TIME)
    except Exception:
        log.exception("no attribution", key=key)
        return Found(missing="it could not be worked out")


def late(rows: Sequence[Incident], judged: Mapping[str, Alert]) -> dict[str, Found]:
    """Of open incidents that went without, as at the moment they opened; by alert key, those alone that are there now."""
    alerts = [
        replace(judged[row.alert_key], at_ns=row.opened_with["at_ns"])
        for row in rows
        if row.alert_key in judged and row.attribution_missing in (NO_TIME, AWAY)
    ]
    found = gather(alerts[:MOST_LATE], LATE_DEADLINE_S)
    return {key: one for key, one in found.items() if one.attribution}


def present(rows: Sequence[Incident], judged: Mapping[str, Alert], now_ns: int) -> dict[str, float]:
    """What is measured now, by alert key: of those that were measured longest ago, at most MOST_LATE, and not again within FRESH_NS."""
    measured_ns = {row.alert_key: row.burning.get("value_at_ns") or row.opened_with["at_ns"] for row in rows}
    old = [row for row in rows if row.attribution and now_ns - measured_ns[row.alert_key] >= FRESH_NS]
    old.sort(key=lambda row: measured_ns[row.alert_key])
    until = time.monotonic() + LATE_DEADLINE_S
    asked_of = [judged[row.alert_key] for row in old if row.alert_key in judged][:MOST_LATE]
    running = {alert.key: _lanes.submit(value, answers.store(), alert) for alert in asked_of}
    found = {}
    for key, future in running.items():
        try:
            found[key] = future.result(max(0.0, until - time.monotonic()))
        except (TooLate, StoreUnavailableError, StoreError):
            future.cancel()
        except Exception:
            log.exception("present.not_measured", key=key)
    return {key: one for key, one in found.items() if one is not None}


def since(attribution: Mapping[str, Any] | None) -> datetime | None:
    since_ns = (attribution or {}).get("since_ns")
    return datetime.fromtimestamp(since_ns // 10**9, UTC) if isinstance(since_ns, int) else None


def _frozen(found: Found, named: list[dict[str, Any]], scope: Mapping[str, str]) -> Found:
    if found.attribution is None:
        return found
    changes = _changes(since(found.attribution), scope)
    return replace(found, attribution={**found.attribution, "causes": named, "changes": changes})


def _changes(began: datetime | None, scope: Mapping[str, str]) -> list[dict[str, Any]]:
    """What was changed shortly before it began, the latest first."""
    if began is None:
        return []
    records = ChangeRecord.objects.filter(at__gte=began - CHANGES_BEFORE, at__lte=began + CHANGES_AFTER).exclude(
        identity=revision_identity(FIRST_REVISION)  # databases of earlier releases remember it
    )
    changes = [
        {"identity": one.identity, "summary": one.summary, "at_ns": int(one.at.timestamp() * 10**9), "link": one.link}
        for one in records.order_by("-at", "-id")
        if all(scope.get(name, value) == value for name, value in one.scope.items())
    ]
    return changes[:MOST_CHANGES]
