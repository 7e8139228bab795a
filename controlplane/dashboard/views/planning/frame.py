"""What the pages of planners share: their frame, links that keep the question, and notes on the history they rest on."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse

from controlplane.core.formatting import PAGE
from controlplane.dashboard import vendor
from controlplane.dashboard.core.screen import link_query
from controlplane.dashboard.views import common
from controlplane.dashboard.views.common import is_fragment
from controlplane.dashboard.views.planning.jobs import jobs_context
from controlplane.planning.models import PlanSettings
from controlplane.telemetry.query.core.parameters import choice
from forecasting.capacity.plan import Plan

Pairs = Sequence[tuple[str, str]]


def framed(
    request: HttpRequest, title: str, content: str, context: Mapping[str, Any], status: int = 200
) -> HttpResponse:
    """The page, or its data alone for htmx. `content` is the template of the data."""
    jobs = {} if is_fragment(request) else jobs_context(request)
    return common.framed(request, "planning", title, content, {**context, "plotly": vendor.plotly(), **jobs}, status)


def replaced(pairs: Pairs, **changed: str) -> str:
    """The pairs as a query string with some parameters changed; an empty value removes its parameter."""
    kept = [(name, value) for name, value in pairs if name not in changed]
    return link_query([*kept, *((name, value) for name, value in changed.items() if value)])


def choices(pairs: Pairs, name: str, options: Mapping[str, str], current: str) -> list[dict[str, Any]]:
    """Links for each value of a parameter: `options` are words by value."""
    return common.choices(options, current, lambda value: replaced(pairs, **{name: value}), options)


LEVELS = {"p50": "P50", "p90": "P90", "p95": "P95", "p99": "P99"}


def levels(parameters: Mapping[str, Sequence[str]]) -> tuple[dict[str, str], str]:
    """The quantiles that a page offers, that of the settings among them, and the one that the URL chooses: else that of the settings.

    Raises BadQuestionError.
    """
    usual = f"p{PlanSettings.current().level * 100:g}"
    offered = dict(sorted((LEVELS | {usual: usual.upper()}).items(), key=lambda item: level_of(item[0])))
    return offered, choice(parameters, "q", tuple(offered), usual)


def level_of(text: str) -> float:
    """0.9 of "p90"."""
    return float(text.removeprefix("p")) / 100


def per_second(value: float | None, unit: str) -> str:
    """`12.3 requests/s`, with thousands as k and millions as M; a gap is a dash."""
    if value is None or value != value:
        return PAGE.number(None)
    for scale, prefix in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= scale:
            divisor = 1e3 if prefix == "k" else scale
            return f"{PAGE.number(value / divisor)}{PAGE.space}{prefix}{unit}"
    return f"{PAGE.number(value)}{PAGE.space}{unit}"


def missing(plan: Plan) -> list[str]:
    """Why there is nothing to plan, with what to do."""
    return [note.rstrip(".") for note in plan.notes] if not plan.pools else []
