"""The page of the cache: what it answered, what that saved, and how much is known of answers for similar requests."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import groupby
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from controlplane.core.formatting import PAGE
from controlplane.dashboard import links, vendor
from controlplane.dashboard.core.cache_words import result_words
from controlplane.dashboard.core.figures.cache import cache_figure, outcomes_by_step
from controlplane.dashboard.core.figures.latency import grid
from controlplane.dashboard.core.screen import Screen
from controlplane.dashboard.history import history_context
from controlplane.dashboard.views.common import (
    facet_values,
    filter_context,
    ledger_freshness,
    page,
    question_of,
    render_page,
)
from controlplane.fleet.models import LLMModel, Observation
from controlplane.fleet.observe.core.ready import CACHE_FAULTS, says_all
from controlplane.planning.core.saved import Saved, Sum, altogether
from controlplane.planning.savings import savings
from controlplane.telemetry.core.cache_rows import Counted
from controlplane.telemetry.query import answers, cache_figures
from controlplane.telemetry.query.core.question import Question

MAX_ROWS = 60
FIGURES = (
    ("ms", "waiting", PAGE.ms),
    ("prompt_tokens", "prompt tokens", PAGE.number),
    ("output_tokens", "output tokens", PAGE.number),
    ("gpu_s", "GPU time", lambda seconds: PAGE.ms(1000 * seconds)),
    ("usd", "money", PAGE.usd),
)
"""What was saved: the field, its name, and how it is written."""


@page
def cache(request: HttpRequest) -> HttpResponse:
    wanted, now_ns = question_of(request)
    screen, question = Screen(request.path, wanted), answers.stored(wanted)
    window, step_ns = question.range.window, answers.step_ns(question)
    points = answers.submit_query(cache_figures.series, question, step_ns)
    steps = answers.submit_query(cache_figures.steps, window)
    recording = answers.submit_query(answers.recorded_s, window)
    counted = answers.submit_query(cache_figures.counted, window)
    similar = answers.submit_query(cache_figures.similar, window)
    written = answers.submit_query(cache_figures.written, window)
    values = facet_values(request, question)
    rows = savings(question)
    starts = grid(window.from_ns, window.to_ns, step_ns)
    received = answers.received_steps(
        starts, step_ns, window.to_ns, now_ns, answers.answered_ns(window, now_ns), recording.result()
    )
    by_outcome = outcomes_by_step(points.result(), starts, received)
    whole = altogether(rows)
    context = {
        "whole": whole,
        "figures": [_figure(whole, name, text, form) for name, text, form in FIGURES],
        "figure_names": [text for _, text, _ in FIGURES],
        "rows": [_row(row, question, list(by_outcome)) for row in rows[:MAX_ROWS]],
        "left_out": max(0, len(rows) - MAX_ROWS),
        "figure": cache_figure(by_outcome, starts, question, step_ns) if by_outcome else None,
        "outcomes": list(by_outcome),
        "table": [(start, [counts[n] for counts in by_outcome.values()]) for n, start in enumerate(starts)],
        "steps": steps.result(),
        "comparing": LLMModel.objects.exclude(semantic_mode=LLMModel.SemanticMode.OFF).select_related(
            "semantic_embedder"
        ),
        "routes": similar.result(),
        "lookups": _by_model(counted.result()[cache_figures.LOOKUPS]),
        "inputs": _by_model(counted.result()[cache_figures.INPUTS]),
        "written": written.result(),
        "redis": _redis(),
        "faults": _faults(),
        "plotly": vendor.plotly(),
        **ledger_freshness(wanted, answers.totals(question).newest_ns, now_ns),
        **history_context(screen, question, lists=True),
        **filter_context(screen, values),
    }
    return render_page(request, "dashboard/cache.html", context)


def _figure(row: Saved, name: str, text: str, form: Any) -> dict[str, Any]:
    """`text` of a figure that is known of no request is what is said in its place."""
    of: Sum = getattr(row, name)
    at_most = name == "gpu_s" and row.gpu_at_most
    return {
        "name": text,
        "value": None if of.value is None else f"{'≤ ' if at_most else ''}{form(of.value)}",
        "unknown": of.unknown,
    }


def _row(row: Saved, question: Question, outcomes: Sequence[str]) -> dict[str, Any]:
    narrowed = question.with_filter("model", row.model).with_filter("policy_rule", row.rule)
    return {
        "row": row,
        "href": links.requests(narrowed),
        "counts": [row.requests[outcome] for outcome in outcomes],
        "figures": [_figure(row, name, text, form) for name, text, form in FIGURES],
    }


def _by_model(counts: Sequence[Counted]) -> list[dict[str, Any]]:
    """Of each model what came of its look-ups, the most frequent first."""
    models = []
    for model, each in groupby(counts, key=lambda it: it.model):
        results = sorted(each, key=lambda it: (-it.count, it.result))
        said = [{"words": result_words(it.result), "count": it.count} for it in results]
        models.append({"model": model, "total": sum(it.count for it in results), "results": said})
    return models


def _redis() -> dict[str, float] | None:
    """What Redis said of its memory; None where that is not known now."""
    seen = _seen("redis")
    return seen.figures if seen is not None and "memory_bytes" in seen.figures else None


def _faults() -> list[str] | None:
    """What is wrong with the cache by what the gateway says now; None where that is not known."""
    seen = _seen("gateway")
    faults = [fault.text for fault in CACHE_FAULTS if seen and fault.text in seen.error]
    return faults if faults or (seen and says_all(seen.error)) else None


def _seen(component: str) -> Observation | None:
    since = timezone.now() - timedelta(seconds=settings.CONFIG.stale_after_s)
    return Observation.objects.filter(component=component, observed_at__gt=since).exclude(state="down").first()
