"""The list of requests: newest or slowest first, each with a link to its trace."""

from typing import Any, cast
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from controlplane.dashboard import links
from controlplane.dashboard.compare import beside_context, query_totals
from controlplane.dashboard.core.screen import Screen
from controlplane.dashboard.history import history_context
from controlplane.dashboard.views.common import (
    choices,
    facet_values,
    filter_context,
    ledger_freshness,
    page,
    question_of,
    render_page,
)
from controlplane.telemetry.core.query_types import Order
from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.core.parameters import choice, single, whole_number
from controlplane.telemetry.query.core.question import DEFAULT_QUANTILE
from controlplane.telemetry.query.core.slow import ms_as_ns

ORDERS = {"newest": "newest first", "slowest": "slowest first"}
PAGE_ROWS = 50
MAX_ROWS = 200
DEFAULTS = {"order": "newest", "limit": str(PAGE_ROWS)}


@page
def requests(request: HttpRequest) -> HttpResponse:
    question, now_ns = question_of(request)
    parameters = dict(request.GET.lists())
    order = cast(Order, choice(parameters, "order", tuple(ORDERS), DEFAULTS["order"]))
    limit = whole_number(parameters, "limit", PAGE_ROWS, 1, MAX_ROWS)
    cursor = request.GET.get("cursor") or None
    bounds = {name: text for name in ("min_ms", "max_ms") if (text := single(parameters, name, ""))}
    ns = {name: ms_as_ns(name, text) for name, text in bounds.items()}
    own = {**bounds, "limit": str(limit), "order": order, "compare": single(parameters, "compare", "")}
    screen = Screen(request.path, question, own, DEFAULTS)
    least_ns, most_ns = ns.get("min_ms", 0), ns.get("max_ms")
    rows_query = answers.submit_query(answers.requests, question, order, limit, cursor, least_ns, most_ns)
    counted = answers.submit_query(answers.totals, answers.stored(question))
    beside = query_totals(screen, parameters, now_ns)
    values = facet_values(request, question)
    page, totals = rows_query.result(), counted.result()
    every = [*question.with_quantile(DEFAULT_QUANTILE).pairs(), *bounds.items()]
    context = {
        **filter_context(screen, values),
        **ledger_freshness(question, totals.newest_ns, now_ns),
        **history_context(screen, question, lists=True),
        **beside_context(screen, beside, totals, now_ns),
        "rows": rows(page.rows),
        "total": totals.requests,
        "least_ns": least_ns,
        "most_ns": most_ns,
        "any_length_href": f"?{screen.query(min_ms='', max_ms='')}",
        "first_page": cursor is None,
        "first_href": f"?{screen.query()}",
        "next_href": f"?{screen.query(cursor=page.next_cursor)}" if page.next_cursor else "",
        "orders": choices(ORDERS, order, lambda order: screen.query(order=order), ORDERS),
        "exports": [
            {"text": name, "href": f"{reverse(f'api:requests_{form}')}?{urlencode(every)}"}
            for form, name in (("csv", "CSV"), ("parquet", "Parquet"))
        ],
        "latency_href": links.latency(question),
    }
    return render_page(request, "dashboard/requests.html", context)


def rows(ledger_rows: list[LedgerRow]) -> list[dict[str, Any]]:
    """The values of rows that a template cannot compute. The bars share one scale: the longest request of the page."""
    longest = max((row.e2e_ns for row in ledger_rows), default=0)
    return [
        {
            "row": row,
            "href": links.trace(row.trace_id, row.request_id),
            "longest_ns": longest,
            "worst": max(row.stages, key=lambda stage: row.stages[stage])
            if any(row.stages.values())
            else "unattributed",
            "status": STATUS_LOOKS.get(row.status, ("○", "muted")),
        }
        for row in ledger_rows
    ]


STATUS_LOOKS = {"ok": ("✓", "good"), "error": ("✕", "bad"), "rejected": ("⊘", "warn"), "cancelled": ("◇", "muted")}
"""Icon and colour class of a request's status; the word stands beside them."""
