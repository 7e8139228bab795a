"""Attributes several alerts at once, within a deadline: a page goes out without an attribution rather than late."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import structlog

from controlplane.incidents.attribution.changed import changed_before
from controlplane.incidents.attribution.core import alert_record
from controlplane.incidents.attribution.questions import attribution_of, causes, value
from controlplane.incidents.models import Incident
from controlplane.serving_stack import pools_served
from controlplane.slo.core.alert import Alert
from controlplane.slo.core.count_plan import cut
from controlplane.telemetry.query import answers
from controlplane.telemetry.store import StoreError, StoreUnavailableError

log = structlog.get_logger(__name__)
T = TypeVar("T")

DEADLINE_S = 5.0
"""For all incidents that open in one tick. An outage may take 75 s to reach a person."""
NO_TIME = f"the store did not answer within {DEADLINE_S:.0f} s"
AWAY = "the store does not answer"
NOT_IN_LEDGER = "the ledger has no bad request in this scope"
LATE_DEADLINE_S = 2.0
NO_REQUESTS = "it is judged from a server's metrics, which do not have single requests"
MAX_LATE = 5  # filled in, or measured again, per tick
FRESH_NS = 30 * 10**9  # the present is measured again after this
TO_THE_MINUTE = timedelta(minutes=1)  # so exactly is the first bad minute known

_workers = ThreadPoolExecutor(4, thread_name_prefix="attribution")


@dataclass(frozen=True, slots=True)
class Found:
    """`attribution`: what the store says; `missing`: why it says nothing; `changes`: what the database says was changed before, always."""

    attribution: dict[str, Any] | None = None
    missing: str = ""
    changes: list[dict[str, Any]] = field(default_factory=list)


def gather(alerts: Sequence[Alert], deadline_s: float = DEADLINE_S) -> dict[str, Found]:
    """By alert key. Never raises, and never takes much longer than `deadline_s`."""
    until = time.monotonic() + deadline_s
    running = {alert.key: _workers.submit(_query, alert) for alert in alerts}
    serving = pools_served() if alerts else {}
    beside = {alert.key: _workers.submit(causes, alert, serving) for alert in alerts}
    attributions = {key: _answer(key, future, until) for key, future in running.items()}
    named = {key: _in_time("known_causes.failed", key, future, until) or [] for key, future in beside.items()}
    return {alert.key: _frozen(alert, attributions[alert.key], named[alert.key]) for alert in alerts}


def _query(alert: Alert) -> Found:
    if cut(alert.objective.indicator) is None:
        return Found(missing=NO_REQUESTS)
    try:
        attribution = attribution_of(answers.store(), alert)
    except StoreUnavailableError:
        return Found(missing=AWAY)
    except StoreError as error:
        log.warning("attribution.refused", key=alert.key, error=str(error))
        return Found(missing="the store refused the query")
    return Found(attribution) if attribution else Found(missing=NOT_IN_LEDGER)


def _in_time(event: str, key: str, future: "Future[T]", until: float) -> T | None:
    """None where it fails or is late: a page goes out without it."""
    try:
        return future.result(max(0.0, until - time.monotonic()))
    except (TooLate, StoreUnavailableError, StoreError):
        future.cancel()
    except Exception:
        log.exception(event, key=key)
    return None


def _answer(key: str, future: "Future[Found]", until: float) -> Found:
    try:
        return future.result(max(0.0, until - time.monotonic()))
    except TooLate:
        future.cancel()
        return Found(missing=NO_TIME)
    except Exception:
        log.exception("attribution.failed", key=key)
        return Found(missing="attribution failed; the log says why")


def late(rows: Sequence[Incident], judged: Mapping[str, Alert]) -> dict[str, Found]:
    """Attributions of open incidents that opened without one, as of when they opened. By alert key; those that still fail are left out."""
    alerts = [
        replace(judged[row.alert_key], at_ns=row.opened_with["at_ns"])
        for row in rows
        if row.alert_key in judged and row.attribution_missing in (NO_TIME, AWAY)
    ]
    attributed = gather(alerts[:MAX_LATE], LATE_DEADLINE_S)
    return {key: result for key, result in attributed.items() if result.attribution}


def present(rows: Sequence[Incident], judged: Mapping[str, Alert], now_ns: int) -> dict[str, float]:
    """Present values by alert key, of the MAX_LATE incidents that were measured longest ago; none is measured again within FRESH_NS."""
    measured_ns = {row.alert_key: row.burning.get("value_at_ns") or row.opened_with["at_ns"] for row in rows}
    old = [row for row in rows if row.attribution and now_ns - measured_ns[row.alert_key] >= FRESH_NS]
    old.sort(key=lambda row: measured_ns[row.alert_key])
    until = time.monotonic() + LATE_DEADLINE_S
    due = [row for row in old if row.alert_key in judged][:MAX_LATE]
    running = {
        row.alert_key: _workers.submit(
            value, answers.store(), judged[row.alert_key], (row.attribution or {})["since_ns"]
        )
        for row in due
    }
    values = {key: _in_time("present_value.failed", key, future, until) for key, future in running.items()}
    return {key: figure for key, figure in values.items() if figure is not None}


def since(attribution: Mapping[str, Any] | None) -> datetime | None:
    since_ns = (attribution or {}).get("since_ns")
    return datetime.fromtimestamp(since_ns // 10**9, UTC) if isinstance(since_ns, int) else None


def unanswered(alert: Alert) -> Found:
    """What is known without the store."""
    return Found(missing=NO_TIME, changes=_changes(alert, None))


def _frozen(alert: Alert, gathered: Found, named: list[dict[str, Any]]) -> Found:
    changes = _changes(alert, since(gathered.attribution))
    if gathered.attribution is None:
        return replace(gathered, changes=changes)
    return replace(gathered, attribution={**gathered.attribution, "causes": named}, changes=changes)


def _changes(alert: Alert, began: datetime | None) -> list[dict[str, Any]]:
    """Where it is not known when it began, it may have been at any time of the window that burns."""
    at = datetime.fromtimestamp(alert.at_ns // 10**9, UTC)
    earliest = began or at - timedelta(seconds=alert_record.looked_back_s(alert))
    return [
        {
            "identity": record.identity,
            "summary": record.summary,
            "at_ns": int(record.at.timestamp() * 10**9),
            "link": record.link,
        }
        for record in changed_before(alert.scope, earliest, began + TO_THE_MINUTE if began else at)
    ]
