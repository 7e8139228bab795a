"""The service map: the serving stack as it is, what passes each of its edges, and where the time goes."""

from typing import Any

from django.http import HttpRequest, HttpResponse

from controlplane.core.formatting import PAGE
from controlplane.dashboard import links
from controlplane.dashboard.compare import beside_context, query_totals
from controlplane.dashboard.core import service_map as core
from controlplane.dashboard.core.screen import Screen
from controlplane.dashboard.history import history_context, synthetic_context
from controlplane.dashboard.views.common import (
    facet_values,
    filter_context,
    ledger_freshness,
    page,
    question_of,
    render_page,
)
from controlplane.dashboard.views.overview import STATE_LOOKS
from controlplane.fleet.core.stack_rows import PoolEntry
from controlplane.fleet.inventory import pool_entries
from controlplane.serving_stack import serving_stack
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.core.parameters import single
from controlplane.telemetry.query.core.question import Question
from controlplane.telemetry.query.core.timerange import SECOND_NS

MAX_REPLICAS = 60


@page
def service_map(request: HttpRequest) -> HttpResponse:
    wanted, now_ns = question_of(request)
    parameters = dict(request.GET.lists())
    screen = Screen(request.path, wanted, {"compare": single(parameters, "compare", "")})
    question = answers.stored(wanted)  # rollups have no replicas
    beside = query_totals(screen, parameters, now_ns)
    by_cache = answers.submit_query(answers.groups, question, "cache")
    by_pool = answers.submit_query(answers.groups, question, "pool")
    attempts = answers.submit_query(answers.replicas, question.range.window, question.filters)
    values = facet_values(request, question)
    report = answers.report(question)
    entries = [entry for entry in pool_entries() if entry.enabled]
    drawn = core.service_map(
        report,
        by_cache.result(),
        by_pool.result(),
        attempts.result(),
        [entry.name for entry in entries],
        placed(entries),
    )
    shown = core.without_idle(drawn, MAX_REPLICAS)
    window = question.range.window
    covered_ns = answers.answered_ns(window, now_ns)
    measured_ns = answers.measured_ns(window, now_ns, covered_ns, answers.recorded_s(window), report.requests)
    context = {
        **map_context(shown, question, measured_ns),
        "replicas_left_out": len(drawn.nodes) - len(shown.nodes),
        "report": report,
        **ledger_freshness(wanted, report.newest_ns, now_ns),
        **history_context(screen, question, lists=True),
        **beside_context(screen, beside, report, now_ns),
        **synthetic_context(question, exact=report.exact),
        **filter_context(screen, values),
    }
    return render_page(request, "dashboard/map.html", context)


def placed(entries: list[PoolEntry]) -> list[core.PlacedReplica]:
    return [
        core.PlacedReplica(entry.name, replica.name, entry.runs_in)
        for entry in entries
        for replica in entry.replicas
        if replica.enabled
    ]


def map_context(drawn: core.Map, question: Question, measured_ns: int) -> dict[str, Any]:
    """The drawing, and the table behind it. Without a covered time no rate is known."""
    states: dict[str, str] = {
        "cache" if row.component == "redis" else row.component: row.state for row in serving_stack()
    }
    boxes, lines, width, height = core.laid_out(drawn)
    arriving = core.incoming(drawn)
    names = {node.key: node.name for node in drawn.nodes}
    return {
        "boxes": [
            {
                "box": box,
                "href": _href(box.node, question),
                "look": STATE_LOOKS.get(states.get(box.node.key, ""), ("", "")),
                "state": states.get(box.node.key, ""),
                "share": PAGE.share(arriving[box.node.key].share) if box.node.key in arriving else "",
                "figures": _figures(arriving.get(box.node.key), measured_ns),
                "short": _short(box.node.name),
            }
            for box in boxes
        ],
        "lines": lines,
        "edges": [
            {
                "edge": edge,
                "source": names[edge.source],
                "target": names[edge.target],
                "rate": _rate(edge.flow.count, measured_ns),
                "failed": edge.flow.errors / edge.flow.count
                if edge.flow.errors is not None and edge.flow.count
                else None,
            }
            for edge in drawn.edges
        ],
        "columns": [{"name": name, "x": at * core.ACROSS} for at, name in enumerate(core.COLUMNS)],
        "width": width,
        "height": height,
    }


def _figures(flow: core.Flow | None, measured_ns: int) -> str:
    """`3.1 /s · ✕ 0.4 % · p95 240 ms`, without what is not known; empty for the clients."""
    if flow is None:
        return ""
    parts = [_rate(flow.count, measured_ns)]
    if flow.errors and flow.count:
        parts.append(f"✕ {PAGE.share(flow.errors / flow.count)}")
    if flow.p95_ms is not None:
        parts.append(f"p95 {PAGE.ms(flow.p95_ms)}")
    return " · ".join(parts)


def _rate(count: int | None, measured_ns: int) -> str:
    return PAGE.rate(count * SECOND_NS / measured_ns if count is not None and measured_ns else None)


def _href(node: core.Node, question: Question) -> str:
    kind, _, name = node.key.partition(":")
    if kind == "pool":
        return links.latency(question.with_filter("pool", name))
    if node.column == 3:
        return links.latency(question.with_filter("replica", node.name))
    if node.key == "cache":
        return links.latency(question, by="cache")
    return links.latency(question) if node.column < 2 else ""


def _short(name: str) -> str:
    return name if len(name) <= 19 else f"{name[:8]}…{name[-10:]}"
