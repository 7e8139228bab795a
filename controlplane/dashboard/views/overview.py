"""The overview: whether components are up, how busy they are and how slow. Each number links to its page."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from controlplane.core.formatting import PAGE
from controlplane.dashboard import links
from controlplane.dashboard.compare import beside_context, query_totals
from controlplane.dashboard.core.figures.latency import grid
from controlplane.dashboard.core.figures.spark import spark
from controlplane.dashboard.core.screen import Screen
from controlplane.dashboard.core.zone import clock, minute, said
from controlplane.dashboard.failures import words
from controlplane.dashboard.history import history_context, synthetic_context
from controlplane.dashboard.incident_screen import row as one_incident
from controlplane.dashboard.views.common import ledger_freshness, page, question_of, render_page
from controlplane.fleet.core.stack_rows import RATE_FIGURES, Row
from controlplane.fleet.inventory import launched
from controlplane.incidents.act.silencing import hidden
from controlplane.incidents.decide.rows import SHOULD_NOTIFY
from controlplane.incidents.models import Incident, SilenceRecord
from controlplane.incidents.notify.delivery.health.health import health
from controlplane.incidents.report.paging_row import paging_row
from controlplane.incidents.report.standing import standings
from controlplane.policy.models import Override, Pause
from controlplane.policy.revisions import pausing
from controlplane.serving_stack import serving_stack, submit_ledger
from controlplane.telemetry.core.query_types import (
    FROM_CACHE,
    Dimension,
    Failure,
    Health,
    LatencyPoint,
    LatencyReport,
    ModelCost,
)
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.core.parameters import Parameters, single
from controlplane.telemetry.query.core.question import Question, parse
from controlplane.telemetry.query.core.timerange import SECOND_NS
from controlplane.telemetry.store import StoreUnavailableError
from controlplane.telemetry.store.read.retained import Kept

POINTS = 30
MAX_INCIDENTS = 5
MAX_MODELS = 3
MAX_POOL_ROWS = 100
STATE_LOOKS = {
    "up": ("●", "good"),
    "degraded": ("◐", "warn"),
    "starting": ("◔", "muted"),
    "down": ("✕", "bad"),
    "stale": ("▲", "warn"),
    "unknown": ("○", "muted"),
}
"""Icon and colour class of a component's state; the word stands beside them. Only a component that is known to be up is green."""
DOES = {
    "gateway": ("requests", "errors"),
    "cache": ("commands", ""),
    "telemetry": ("spans", "refused"),
    "lane": ("lines", "errors"),
}
"""What a kind of process handles, and what its failures are called."""
SHOWN_ALREADY = frozenset({"requests_per_s", "errors_per_s", *RATE_FIGURES.values()})
NOT_RECEIVED = "not known: telemetry did not receive all the time"
UNIT_NAMES = {"s": "second", "m": "minute", "h": "hour", "d": "day", "w": "week"}
UNITS: Mapping[str, Callable[[float], str]] = {
    "_per_s": PAGE.rate,
    "_bytes": PAGE.size,
    "_ms": PAGE.ms,
    "_ratio": PAGE.share,
    "_s": lambda seconds: PAGE.ms(1000 * seconds) if seconds < 10 else PAGE.duration(seconds),
}
"""By the end of a figure's name, longer ends first."""
"""How a figure is written, by the unit at the end of its name."""


@page
def overview(request: HttpRequest) -> HttpResponse:
    """Shows the components also while the store does not answer."""
    wanted, now_ns = question_of(request)
    parameters = dict(request.GET.lists())
    screen = Screen(request.path, wanted, {"compare": single(parameters, "compare", "")})
    ledger = submit_ledger()
    context = figures_context(screen, wanted, parameters, now_ns)
    paging = health(timezone.now())
    stack = [*serving_stack(ledger), paging_row(paging)]
    context |= {
        "question": wanted,
        "path": request.path,
        "heading": heading(wanted),
        "components": [component(row) for row in stack if row.kind not in ("pool", "replica")],
        **pools_context([row for row in stack if row.kind in ("pool", "replica")]),
        "launched": launched(),
        **incidents_context(),
        "by_people": by_people(),
        "paging": paging,
    }
    return render_page(request, "dashboard/overview.html", context)


def figures_context(screen: Screen, wanted: Question, parameters: Parameters, now_ns: int) -> dict[str, Any]:
    """The figures of requests, or that the store is away."""
    context: dict[str, Any] = {"numbers": [], "away": None}
    try:
        question = answers.rounded(wanted)
        window = question.range.window
        step = answers.step_ns(question, POINTS)
        by_cache = answers.submit_query(answers.health, window, "cache")
        costs = answers.submit_query(answers.costs, question)
        recording = answers.submit_query(answers.recorded_s, window)
        beside = query_totals(screen, parameters, now_ns)
        report, points = answers.outline(question, step, answers.rolled(question, step))
        failed = answers.failures(question) if report.errors else []
        report = answers.with_failures(report, failed, question)
        covered_ns = answers.answered_ns(window, now_ns)
        recorded_s = recording.result()
        measured_ns = answers.measured_ns(window, now_ns, covered_ns, recorded_s, report.requests)
        starts = grid(window.from_ns, window.to_ns, step)
        received = answers.received_steps(starts, step, window.to_ns, now_ns, covered_ns, recorded_s)
        known = dict(zip(starts, received, strict=True))
        context["numbers"] = numbers(
            question, report, points, by_cache.result(), failed, known, covered_ns, measured_ns
        )
        context["numbers"].append(cost_number(question, costs.result()))
        if covered_ns and not measured_ns:
            context["numbers"] = [each | {"value": "–", "note": NOT_RECEIVED} for each in context["numbers"]]
        context |= beside_context(screen, beside, report, now_ns)
        context |= ledger_freshness(wanted, report.newest_ns, now_ns)
        context |= history_context(screen, question) | synthetic_context(question, exact=report.exact)
    except StoreUnavailableError as error:
        context["away"] = error
    return context


def incidents_context() -> dict[str, Any]:
    """The open incidents that notify somebody, or should; pages first."""
    now = timezone.now()
    open_ones = Incident.objects.exclude(status=Incident.Status.RESOLVED).filter(withheld__in=SHOULD_NOTIFY)
    incidents = list(open_ones.order_by("severity", "-opened_at"))
    shown = incidents[:MAX_INCIDENTS]
    holds = standings(shown, now)
    return {
        "open_incidents": [one_incident(incident, now, holds[incident.pk]) for incident in shown],
        "open_count": len(incidents),
    }


def by_people() -> list[dict[str, Any]]:
    """What people have silenced, paused and overridden, the soonest end first."""
    now = timezone.now()
    open_ones = list(Incident.open_ones())
    rows: list[dict[str, Any]] = [
        {
            "what": "silenced",
            "of": ", ".join(each.matchers),
            "row": each,
            "covers": hidden(each, open_ones),
            "href": reverse("silences"),
        }
        for each in SilenceRecord.objects.filter(starts_at__lte=now, ends_at__gt=now)
    ]
    rows += [
        {"what": "paused", "of": each.target or "everything", "row": each, "href": reverse("pauses")}
        for each in pausing.in_force(Pause).filter(starts_at__lte=now)
    ]
    rows += [
        {"what": "overridden", "of": str(each), "row": each, "href": reverse("pauses")}
        for each in pausing.in_force(Override.objects.counting()).filter(starts_at__lte=now)
    ]
    return sorted(rows, key=lambda each: each["row"].ends_at)


def pools_context(stack: Sequence[Row]) -> dict[str, Any]:
    """Pools with their replicas, those that are not up first. Of many, the replicas of pools that are up are only counted."""
    groups: list[list[Row]] = []
    for row in stack:
        if row.kind == "pool":
            groups.append([])
        groups[-1].append(row)
    groups.sort(key=lambda group: group[0].state == "up")
    is_long = len(stack) > MAX_POOL_ROWS
    shown = [row for group in groups for row in (group[:1] if is_long and group[0].state == "up" else group)]
    return {"pools": [component(row) for row in shown], "replicas_left_out": len(stack) - len(shown)}


def component(row: Row) -> dict[str, Any]:
    """The values of a row that a template cannot compute."""
    now = parse({}, time.time_ns())
    dimension: Dimension = "pool" if row.kind == "pool" else "replica"
    href = links.latency(now.with_filter(dimension, row.name)) if row.kind in ("pool", "replica") else ""
    icon, tone = STATE_LOOKS[row.state]
    does, fails = DOES.get(row.kind, ("", ""))
    return {"row": row, "icon": icon, "tone": tone, "href": href, "does": does, "fails": fails, "figures": figures(row)}


def figures(row: Row) -> list[tuple[str, str]]:
    """The figures of an observation that have no column, with their units."""
    return [
        (name, text)
        for key, value in sorted(row.figures.items())
        if key not in SHOWN_ALREADY
        for name, text in [figure(key, value)]
    ]


def figure(key: str, value: float) -> tuple[str, str]:
    """A figure's name without its unit, and the value with it."""
    for suffix, written in UNITS.items():
        if key.endswith(suffix):
            return key.removesuffix(suffix).replace("_", " "), written(value)
    return key.replace("_", " "), PAGE.count(int(value)) if value == int(value) else f"{value:,.2f}"


def numbers(
    question: Question,
    report: LatencyReport,
    points: Sequence[LatencyPoint],
    by_cache: Mapping[str, Health],
    failed: Sequence[Failure],
    received: Mapping[int, bool],
    covered_ns: int,
    measured_ns: int,
) -> list[dict[str, Any]]:
    """The headline numbers of the range with their shape over time. `received`: by the start of each step, whether requests are known."""
    by_start = {point.start_ns: point for point in points}
    column = [by_start.get(start) for start in received]
    # What came before the first request, and while nothing was received, is not known: no line, and no zero.
    arrived = [
        point.requests if point else 0 if known else None
        for known, point in zip(received.values(), column, strict=True)
    ]
    frequent = max(report.ttft_ms, key=lambda name: report.ttft_count.get(name, 0), default="")
    hits = sum(by_cache[value].requests for value in FROM_CACHE if value in by_cache)
    looked_up = sum(health.requests for value, health in by_cache.items() if value)
    latency = links.latency(question)
    return [
        {
            "label": "requests",
            "value": PAGE.rate(report.requests * SECOND_NS / measured_ns if measured_ns else None),
            "note": requests_note(question, report.requests, covered_ns, measured_ns),
            "spark": spark(arrived),
            "href": latency,
        },
        {
            "label": "errors",
            "value": PAGE.share(report.errors / report.requests) if report.requests else "–",
            "note": errors_note(report.errors, failed),
            "bad": bool(report.errors),
            "spark": spark([point.errors / point.requests if point else None for point in column]),
            "href": links.failed(question),
        },
        {
            "label": "E2E p95",
            "value": PAGE.ms(report.e2e_ms.p95 if report.e2e_ms else None),
            "note": f"p50 {PAGE.ms(report.e2e_ms.p50)}, of {PAGE.count(report.answered)} answered{'' if report.exact else '; ± 0.5 %'}"
            if report.e2e_ms
            else "none answered",
            "spark": spark([point.e2e_ms.p95 if point and point.e2e_ms else None for point in column]),
            "href": latency,
        },
        {
            "label": f"TTFT p95 ({frequent})" if frequent else "TTFT p95",
            "value": PAGE.ms(report.ttft_ms[frequent].p95 if frequent else None),
            "note": f"p50 {PAGE.ms(report.ttft_ms[frequent].p50)}" if frequent else "",
            "spark": spark(
                [point.ttft_ms[frequent].p95 if point and frequent in point.ttft_ms else None for point in column]
            ),
            "href": latency,
        },
        {
            "label": "answered from cache",
            "value": PAGE.share(hits / looked_up) if looked_up else "–",
            "note": PAGE.counted(hits, "request"),
            "spark": "",
            "href": links.latency(question.with_filter("cache", *FROM_CACHE)),
        },
    ]


def cost_number(question: Question, costs: Sequence[ModelCost]) -> dict[str, Any]:
    """What 1,000 tokens of an answer cost, of all models and of each. An answer without a price is not free."""
    priced = [cost for cost in costs if cost.output_tokens]
    tokens, unpriced = sum(cost.output_tokens for cost in priced), sum(cost.unpriced for cost in costs)
    each = ", ".join(f"{cost.model} {PAGE.usd(cost.usd / cost.output_tokens * 1000)}" for cost in priced[:MAX_MODELS])
    return {
        "label": "1 000 tokens of answer",
        "value": PAGE.usd(sum(cost.usd for cost in priced) / tokens * 1000) if tokens else "–",
        "note": each + (f"; {PAGE.counted(unpriced, 'answer')} without a price" if unpriced and priced else "")
        or "no answer has a price",
        "spark": "",
        "href": links.latency(question),
    }


def heading(question: Question) -> str:
    """The range in words: `Last 15 minutes`, `2026-11-20 14:05 to 2026-11-20 15:05 UTC`."""
    length = re.fullmatch(r"now-([0-9]+)([smhdw])", question.range.from_text)
    if question.range.live and length:
        number, unit = int(length[1]), UNIT_NAMES[length[2]]
        return f"Last {number} {unit}s" if number != 1 else f"Last {unit}"
    window = question.range.window
    return f"{minute(window.from_ns)} to {'now' if question.range.live else f'{minute(window.to_ns)} {said()}'}"


def requests_note(question: Question, requests: int, covered_ns: int, measured_ns: int) -> str:
    """How many, and over which time if the ledger or its rollups begin later than the range, or not all of it was measured."""
    if not covered_ns:
        return "nothing is kept of this range" if answers.kept() != Kept() else "the ledger is empty"
    begins_ns = question.range.window.to_ns - covered_ns
    young = begins_ns - question.range.window.from_ns >= SECOND_NS
    return (
        f"{PAGE.count(requests)} in all"
        + (f", since {clock(begins_ns)} {said()}: the ledger begins there" if young else "")
        + (f", in the {PAGE.duration(measured_ns / 1e9)} that were measured" if measured_ns < covered_ns else "")
    )


def errors_note(errors: int, failed: Sequence[Failure]) -> str:
    """How many failed, and the most frequent reason."""
    if not failed:
        return PAGE.counted(errors, "request")
    first = failed[0]
    return f"{PAGE.counted(errors, 'request')}: {PAGE.count(first.requests)} {words(first)}{', …' if len(failed) > 1 else ''}"
