"""Alerts as evaluation would make them."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.slo.core.alert import Alert, State
from controlplane.slo.core.budget import Budget
from controlplane.slo.core.burn import Verdict
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.sli import Availability, Latency
from controlplane.slo.core.windows import WORKBOOK, Severity

NOW = datetime(2026, 11, 21, 2, 30, tzinfo=UTC)
TTFT = Objective(
    slug="chat-ttft",
    name="Chat answers start quickly",
    indicator=Latency("ttft", 100),
    target=0.95,
    scope={"model": "chat-large", "tier": "premium"},
    owner="serving",
    runbook="https://runbooks.example.com/chat-ttft",
    labels={"service": "chat"},
)
UP = Objective(
    slug="chat-up",
    name="Chat answers",
    indicator=Availability(),
    target=0.999,
    scope={"model": "chat-large"},
    owner="serving",
)


def after(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def alert(
    objective: Objective = TTFT,
    state: State = "firing",
    severity: Severity = "page",
    at: datetime = NOW,
    burn: float = 18.0,
    scope: Mapping[str, str] | None = None,
    **more: Any,
) -> Alert:
    """`burn`: of both windows of the verdicts that fire."""
    fires = state == "firing"
    verdicts = tuple(
        Verdict(
            window,
            window.burn_rate(30 * 86_400),
            long=burn if fires and window.severity == severity else 0.2,
            short=burn if fires and window.severity == severity else 0.1,
            enough_events=True,
        )
        for window in WORKBOOK
    )
    made = Alert(
        objective=objective,
        scope=dict(objective.scope if scope is None else scope),
        at_ns=int(at.timestamp()) * 10**9,
        state=state,
        severity=severity if fires else None,
        verdicts=verdicts,
        budget=Budget(1000.0, 690, 0.31),
        lasts_s=7200.0,
    )
    return replace(made, **more)


def outage(**more: Any) -> Alert:
    """Nine requests in ten fail."""
    return alert(UP, burn=900.0, **more)
