"""Decisions over time, under the latency that they answer."""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from controlplane.core.formatting import shortened
from controlplane.dashboard import links
from controlplane.dashboard.core.figures.decisions import MAX_POOLS, Counts, Marker, decisions_figure
from controlplane.dashboard.core.screen import link_query
from controlplane.dashboard.views.common import facet, page, presets
from controlplane.dashboard.views.policies.frame import framed, standing_context
from controlplane.fleet.models import Pool
from controlplane.policy import queries
from controlplane.policy.core.record import Record
from controlplane.policy.models import DecisionChange
from controlplane.telemetry.core.query_types import LatencyPoint
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.core import timerange
from controlplane.telemetry.query.core.parameters import choice
from controlplane.telemetry.query.core.question import Question, parse
from controlplane.telemetry.store import StoreUnavailableError

DEFAULT = {"from": ["now-1h"], "to": ["now"]}
KINDS = tuple(DecisionChange.Kind.values)
SHADOWS = ("", "only", "without")
FILTERS = ("model", "pool", "tier")
MAX_ROWS = 100


@require_safe
@page
def decisions(request: HttpRequest) -> HttpResponse:
    """`?model=`, `pool`, `tier`, `kind`, `policy` choose some; `shadow`: `only`, or `without` those of revisions in shadow."""
    parameters = DEFAULT | dict(request.GET.lists())
    question = parse(parameters, time.time_ns())
    kind = choice(parameters, "kind", ("", *KINDS), "")
    shadow = choice(parameters, "shadow", SHADOWS, "")
    policy = request.GET.get("policy", "")
    own = [(name, value) for name, value in (("kind", kind), ("policy", policy), ("shadow", shadow)) if value]
    window = question.range.window
    from_at, to_at = (datetime.fromtimestamp(ns / 1e9, UTC) for ns in (window.from_ns, window.to_ns))
    latency = answers.submit_query(_series, question)
    rows = queries.changes(from_at, to_at, _condition(question, kind, policy, shadow))
    records = queries.records(from_at, to_at)
    pools = _pools(question, records)
    series, step = latency.result()
    standing = queries.newest_decision()
    context: dict[str, Any] = {
        **standing_context(standing, question),
        **filter_context(request.path, question, own, standing.record if standing else None),
        "filters": "dashboard/policies/_filters.html",
        "rows": rows[:MAX_ROWS],
        "left_out": max(0, len(rows) - MAX_ROWS),
        "most": len(rows) == queries.MAX_CHANGES,
        "store_away": series is None,
        "ticks": len(records),
        "pools_left_out": max(0, len(pools) - MAX_POOLS),
        "figure": decisions_figure(
            series, [_counts(pool, records) for pool in pools], [marker(row) for row in rows], question, step
        ),
        "charted": True,
        "live": question.range.live,
    }
    return framed(request, "Decisions", "_decisions.html", context)


def filter_context(
    path: str, question: Question, own: Sequence[tuple[str, str]], record: Record | None
) -> dict[str, Any]:
    chosen = dict(own)
    wider = links.wider(question)
    models = sorted(record.decision.models) if record else []
    pools = sorted(record.decision.targets) if record else []
    tiers = sorted({tier for facts in record.observation.models.values() for tier in facts.tiers}) if record else []
    policies = sorted({each.name for each in record.policies}) if record else []
    values: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
        "model": (models, question.filters.get("model", ())),
        "pool": (pools, question.filters.get("pool", ())),
        "tier": (tiers, question.filters.get("tier", ())),
        "kind": (KINDS, _only(chosen.get("kind"))),
        "policy": (policies, _only(chosen.get("policy"))),
        "shadow": (SHADOWS[1:], _only(chosen.get("shadow"))),
    }

    def query(changed: Question) -> str:
        return link_query([*changed.pairs(), *own])

    return {
        "question": question,
        "presets": presets(question, query),
        "facets": [facet(name, name, offered, picked) for name, (offered, picked) in values.items()],
        "filtered": bool(question.filters or own),
        "wider": query(wider) if wider else "",
        "resume": query(links.back(question, "1h")),
        "unfiltered": link_query(question.pairs()[:2]),
        "latency_href": links.latency(question),
    }


def marker(row: DecisionChange) -> Marker:
    """Its place on the chart, with what the record says."""
    subject = " ".join(filter(None, (row.about, row.tier)))
    moved = "" if row.before is None or row.after is None else f" {row.before:g} → {row.after:g}"
    return Marker(
        int(row.at.timestamp() * 1000),
        row.kind,
        f"{subject}{moved}: {shortened(row.reason, 120)}",
        reverse("decision", args=[row.decision.key]),
        row.shadow,
        (row.after or 0) < (row.before or 0),
    )


def _condition(question: Question, kind: str, policy: str, shadow: str) -> Q:
    """A model's decisions are also those about its pools."""
    chosen = {name: [value or "" for value in question.filters.get(name, ())] for name in FILTERS}  # type: ignore[call-overload]
    condition = Q()
    if models := chosen["model"]:
        own = Pool.objects.filter(variant__model__name__in=models).values_list("name", flat=True)
        condition &= Q(model__in=models) | Q(pool__in=list(own))
    if chosen["pool"]:
        condition &= Q(pool__in=chosen["pool"])
    if chosen["tier"]:
        condition &= Q(tier__in=chosen["tier"])
    for name, value in (("kind", kind), ("policy", policy)):
        if value:
            condition &= Q(**{name: value})
    return condition & Q(shadow=shadow == "only") if shadow else condition


def _series(question: Question) -> tuple[list[LatencyPoint] | None, int]:
    """With their step, ns. None where the store does not answer: decisions are kept elsewhere."""
    try:
        step = answers.step_ns(question)
        return answers.series(question, step), step
    except StoreUnavailableError:
        return None, timerange.step_ns(question.range.window)


def _pools(question: Question, records: Sequence[Record]) -> list[str]:
    """The pools that were decided about: of the question's models or pools, where it names any."""
    names = sorted({name for record in records for name in record.decision.targets})
    if pools := question.filters.get("pool", ()):
        return [name for name in names if name in pools]
    if models := question.filters.get("model", ()):
        of = {name: facts.model for record in records for name, facts in record.observation.pools.items()}
        return [name for name in names if of.get(name) in models]
    return names


def _counts(pool: str, records: Sequence[Record]) -> Counts:
    decided = [(record.decided_at_ms, record.decision.targets.get(pool)) for record in records]
    return Counts(pool, [at_ms for at_ms, _ in decided], [each.wanted if each else None for _, each in decided])


def _only(value: str | None) -> list[str]:
    return [value] if value else []
