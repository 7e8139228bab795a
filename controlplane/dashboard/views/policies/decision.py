"""One decision: what was seen, the candidates, the rails, what was done, and what became of it."""

from datetime import timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from controlplane.dashboard.core.policy_rows import ages, canary_rows, does, failover_rows, target_row
from controlplane.dashboard.views.common import page
from controlplane.dashboard.views.policies.frame import framed
from controlplane.policy import queries
from controlplane.policy.core.hindsight import hindsight, horizon_ms
from controlplane.policy.core.record import Record, RecordError, decode, encode
from controlplane.policy.models import DecisionRecord
from controlplane.policy.replay import decide_again


@require_safe
@page
def decision(request: HttpRequest, key: str) -> HttpResponse:
    """Everything that its record has, in the order in which it was concluded."""
    row = get_object_or_404(DecisionRecord, key=key)
    context: dict[str, Any] = {
        "row": row,
        "changes": list(row.changes.all()),
        "actions": list(row.actions.order_by("started_at")),
        "before": DecisionRecord.objects.filter(at__lt=row.at, changed=True).order_by("-at", "-pk").only("key").first(),
        "after": DecisionRecord.objects.filter(at__gt=row.at, changed=True).order_by("at", "pk").only("key").first(),
        "latency": {
            "from": f"{row.at - timedelta(minutes=15):%Y-%m-%dT%H:%M:%SZ}",
            "to": f"{row.at + timedelta(minutes=15):%Y-%m-%dT%H:%M:%SZ}",
        },
    }
    try:
        record = decode(row.record)
    except RecordError as error:
        context["unreadable"] = str(error)
    else:
        context |= record_context(record, row)
    return framed(request, f"Decision {key}", "_decision.html", context)


def record_context(record: Record, row: DecisionRecord) -> dict[str, Any]:
    later = queries.records(row.at, row.at + _reach(record))
    judged = {each.target: each for each in hindsight(record, later, int(timezone.now().timestamp() * 1000))}
    policies = queries.policies_of(record)
    return {
        "record": record,
        "targets": [
            target_row(record, name) | {"plan": record.observation.plans.get(name), "hindsight": judged.get(name)}
            for name in record.decision.targets
        ],
        "models": [
            {"decided": each, "steps": [{"step": step, "does": does(step)} for step in each.degradation]}
            for each in record.decision.models.values()
        ],
        "failovers": failover_rows(record.decision),
        "canaries": canary_rows(record, policies.values()),
        "inputs": ages(record.observation),
        "size": len(row.record),
    }


@require_safe
def decision_replay(request: HttpRequest, key: str) -> HttpResponse:
    """Make the decision again from its record, and say whether it is the same, byte for byte."""
    row = get_object_or_404(DecisionRecord, key=key)
    context: dict[str, Any] = {"row": row}
    try:
        record = decode(row.record)
        context["equal"] = decide_again(record) == encode(record.decision)
    except RecordError as error:
        context["error"] = str(error)
    return render(request, "dashboard/policies/_replay.html", context)


def _reach(record: Record) -> timedelta:
    longest = max((horizon_ms(record, name) for name in record.decision.targets), default=0)
    return timedelta(milliseconds=longest + 1)
