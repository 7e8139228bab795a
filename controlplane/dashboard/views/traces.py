"""One trace: its spans as a waterfall, and beside it the ledger of each request in it."""

import re
from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from controlplane.core.formatting import PAGE
from controlplane.dashboard import links
from controlplane.dashboard.core.palette import BANDS, UNATTRIBUTED, stage_style
from controlplane.dashboard.core.screen import link_query
from controlplane.dashboard.core.waterfall import waterfall
from controlplane.dashboard.views.common import page
from controlplane.dashboard.views.requests import STATUS_LOOKS
from controlplane.fleet.inventory import prices_now
from controlplane.telemetry.core.query_types import AT_THE_SERVER, FROM_CACHE, Window
from controlplane.telemetry.core.spans import Span
from controlplane.telemetry.ledger.row import Attempt, LedgerRow
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.core.question import Question
from controlplane.telemetry.query.core.timerange import fixed

TRACE_ID = re.compile(r"[0-9a-f]{32}")
ALIKE_NS = 1800 * 1_000_000_000
"""Requests with the same attribute are looked for in half an hour on either side."""
AROUND_NS = 300 * 1_000_000_000
"""The latency page opened from a trace shows five minutes on either side."""


@page
def trace(request: HttpRequest, trace_id: str) -> HttpResponse:
    """`?request=` chooses whose ledger is shown, where a trace holds several; the slowest by default."""
    trace_id = trace_id.lower()
    if not TRACE_ID.fullmatch(trace_id):
        return render(request, "dashboard/no_trace.html", {"trace_id": trace_id, "malformed": True}, status=404)
    stored = answers.trace(trace_id)
    if stored is None:
        return render(request, "dashboard/no_trace.html", {"trace_id": trace_id}, status=404)
    rows = sorted(stored.rows, key=lambda row: -row.e2e_ns)
    wanted = request.GET.get("request", "")
    chosen = next((row for row in rows if row.request_id == wanted), rows[0] if rows else None)
    context = {
        "trace_id": trace_id,
        "waterfall": waterfall(stored.spans, stored.segments(chosen)),
        "requests": [
            {"row": row, "chosen": row is chosen, "look": STATUS_LOOKS.get(row.status, ("○", "muted"))} for row in rows
        ],
        "chosen": chosen,
        "ledger": ledger(chosen) if chosen else [],
        "facts": facts(chosen, _saved_usd(chosen)) if chosen else [],
        "status": STATUS_LOOKS.get(chosen.status, ("○", "muted")) if chosen else None,
        "around_href": links.latency(_around(chosen)) if chosen else "",
        "alike": link_query(_alike(stored.spans).pairs()) if stored.spans else "",
        "span_count": stored.span_count,
        "shown_spans": len(stored.spans) if len(stored.spans) < stored.span_count else 0,
        "services": sorted({span.service for span in stored.spans if span.service}),
    }
    return render(request, "dashboard/trace.html", context)


def _alike(spans: Sequence[Span]) -> Question:
    began_ns = min(span.start_ns for span in spans)
    return links.plain(fixed(Window(max(10**18, began_ns - ALIKE_NS), began_ns + ALIKE_NS)))


def ledger(row: LedgerRow) -> list[dict[str, Any]]:
    """The stages of one request with any time, in order; they sum to its E2E."""
    entries = []
    for stage in BANDS:
        value = row.unattributed_ns if stage == UNATTRIBUTED else row.stages.get(stage, 0)
        lacking = row.unmeasured and stage in AT_THE_SERVER
        if not value and stage != UNATTRIBUTED and not lacking:
            continue
        parts = (
            [("failed attempts", row.retried_ns), ("prefill", row.prefill_ns), ("decode", row.decode_ns)]
            if stage == "model"
            else []
        )
        entries.append(
            {
                "stage": stage,
                "ns": value if value or not lacking else None,
                "lacking": lacking,
                "share": value / row.e2e_ns if row.e2e_ns else 0.0,
                "means": stage_style(stage).means,
                "parts": [(name, part) for name, part in parts if part],
            }
        )
    return entries


def _saved_usd(row: LedgerRow) -> float | None:
    """What a server's answer would have cost by the price that holds now, where another one's was given."""
    if row.cache_outcome not in FROM_CACHE or row.prompt_tokens is None or row.output_tokens is None:
        return None
    price = prices_now(timezone.now()).get(row.pool)
    prompt, output = (price.usd_per_1k_prompt_tokens, price.usd_per_1k_output_tokens) if price else (None, None)
    if prompt is None or output is None:
        return None
    return (row.prompt_tokens * prompt + row.output_tokens * output) / 1000


def facts(row: LedgerRow, saved_usd: float | None = None) -> list[tuple[str, str]]:
    """The ledger's other columns that are not empty."""
    tokens_per_s = (
        (row.output_tokens - 1) * 1e9 / row.decode_ns
        if row.output_tokens and row.output_tokens > 1 and row.decode_ns
        else None
    )
    failed = any(attempt.outcome != "ok" for attempt in row.attempts)
    written = [
        ("operation", row.operation + (", streamed" if row.stream else "")),
        ("model", row.model),
        ("variant", row.variant),
        ("pool", row.pool),
        ("replica", row.replica + (" (cold start)" if row.cold_start else "")),
        *((f"attempt {number}", _attempt(attempt)) for number, attempt in enumerate(row.attempts, 1) if failed),
        ("region", row.region),
        ("comes from", row.caller_region),
        ("tier", row.tier),
        ("tenant", row.tenant),
        ("cache", row.cache_outcome),
        ("tokens in", _tokens_in(row)),
        ("tokens out", "" if row.output_tokens is None else f"{row.output_tokens:,}"),
        ("decode rate", "" if tokens_per_s is None else f"{tokens_per_s:.1f} tokens/s"),
        ("HTTP status", "" if row.http_status is None else str(row.http_status)),
        ("error", " in ".join(part for part in (row.error_type, row.error_stage) if part)),
        ("cost", _cost(row)),
        ("without the cache", f"{PAGE.usd(saved_usd)}, by the price that holds now" if saved_usd else ""),
        ("policy version", "" if row.policy_version is None else str(row.policy_version)),
        ("routing rule", row.policy_rule),
        ("degraded", row.degraded),
        ("guard", row.guard),
        ("prompt hash", _hashed(row.prompt_hash, row.prompt_bytes)),
        ("answer hash" if row.status == "ok" else "hash of what was sent", _hashed(row.answer_hash, row.answer_bytes)),
        ("recognised by", row.adapter),
    ]
    return [(name, value) for name, value in written if value]


def _tokens_in(row: LedgerRow) -> str:
    if row.prompt_tokens is None:
        return ""
    cached = "" if row.cached_tokens is None else f", {row.cached_tokens:,} of them in its server's cache"
    return f"{'≥ ' if row.is_longer else ''}{row.prompt_tokens:,}{cached}"


def _hashed(digest: str, size_bytes: int | None) -> str:
    return f"{digest}, {size_bytes:,} bytes" if digest and size_bytes is not None else digest


def _cost(row: LedgerRow) -> str:
    """Said to be unknown where there was something to pay for."""
    if row.cost_usd is not None:
        return PAGE.usd(row.cost_usd) if row.cost_usd else "nothing"
    return "unpriced: nobody has entered a price" if row.pool and row.output_tokens else ""


def _attempt(attempt: Attempt) -> str:
    ended = attempt.error_type if attempt.outcome == "error" else attempt.outcome
    return f"{attempt.replica}: {ended} after {PAGE.ns(attempt.ns)}{', tried again' if attempt.retried else ''}"


def _around(row: LedgerRow) -> Question:
    window = fixed(Window(row.entry_start_ns - AROUND_NS, row.end_ns + AROUND_NS))
    return Question(window, {"model": (row.model,)} if row.model else {})
