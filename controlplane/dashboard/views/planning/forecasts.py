"""Forecasts of demand: one series with its bands and its record against what came, and all series as a table."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf
from typing import Any

import numpy as np
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from controlplane.core.formatting import PAGE, relative
from controlplane.dashboard import links
from controlplane.dashboard.core.figures.forecast import Earlier, Event, forecast_figure
from controlplane.dashboard.history import synthetic
from controlplane.dashboard.views.common import facet, page, presets
from controlplane.dashboard.views.planning.frame import choices, framed, per_second, replaced
from controlplane.planning.forecast_record import ForecastThen, record_of
from controlplane.planning.models import CandidateChange, PlannedEvent, StoredForecast
from controlplane.planning.models.forecast import Measure
from controlplane.planning.refresh import renewed_s
from controlplane.telemetry.query.core.parameters import choice, single
from controlplane.telemetry.query.core.question import UNKNOWN, Question
from controlplane.telemetry.query.core.timerange import SECOND_NS, TimeRange, parse
from controlplane.telemetry.store import StoreUnavailableError
from forecasting.forecast import LEVELS, Forecast
from forecasting.gate import why_not, words
from forecasting.series import Series

FACETS = ("model", "tier", "region")
RANGES = ("6h", "24h", "3d", "7d", "28d")
MEASURES = {"requests": "requests", "input_tokens": "input tokens", "output_tokens": "output tokens"}
UNITS = {"requests": "requests/s", "input_tokens": "tokens/s", "output_tokens": "tokens/s"}
MAX_ROWS = 200
MAX_STEPS = 500
"""Of the tables behind the chart."""
STALE_AFTER = 3
"""Of the times after which a forecast is renewed."""
JOINED_S = 2 * 3600
"""Points of the record that are further apart are no line: the worker may have been down."""
BAD_COVERAGE = 0.1
"""A P90 that held this much less or more often than 9 times in 10 is marked."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the URL chooses. `pairs` are its parameters, in a stable order."""

    range: TimeRange
    measure: str
    horizon_s: int
    filters: Mapping[str, str]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return [
            ("measure", self.measure),
            ("horizon", relative(self.horizon_s)),
            ("from", self.range.from_text),
            ("to", self.range.to_text),
            *((name, value or UNKNOWN) for name, value in self.filters.items()),
        ]


@require_safe
@page
def forecasts(request: HttpRequest) -> HttpResponse:
    """`?model=`, `tier`, `region` choose series: the one with the highest peak is drawn. `measure`, `horizon` and `from` are of all."""
    now_s = int(time.time())
    horizons = list(StoredForecast.objects.order_by("horizon_s").values_list("horizon_s", flat=True).distinct())
    chosen = read(dict(request.GET.lists()), horizons, now_s)
    series_count = StoredForecast.objects.count()
    of_horizon = StoredForecast.objects.filter(measure=chosen.measure, horizon_s=chosen.horizon_s)
    every = [row for row in of_horizon if not row.is_empty]
    passing = [row for row in every if all(getattr(row, name) == value for name, value in chosen.filters.items())]
    every_row = [series_row(row, chosen, now_s) for row in passing]
    rows = sorted((row for row in every_row if row["forecast"]), key=lambda row: -row["peak"])
    context: dict[str, Any] = {
        "series_count": series_count,
        "too_short": not every,
        **filter_context(chosen, every, horizons),
        "unreadable": [row for row in every_row if not row["forecast"]],
        "rows": rows[:MAX_ROWS],
        "left_out": max(0, len(rows) - MAX_ROWS),
        "horizon": PAGE.duration(chosen.horizon_s),
        "renew": True,
    }
    seen_s = [chosen.range.window.from_ns // SECOND_NS]
    if rows:
        seen_s.append(rows[0]["row"].history_from_s)
        rows[0]["current"] = True
        context |= shown_context(rows[0], chosen, now_s)
    context["synthetic"] = synthetic(min(seen_s), now_s)
    return framed(request, "Forecasts", "_forecasts.html", context)


def read(parameters: Mapping[str, Sequence[str]], horizons: Sequence[int], now_s: int) -> Chosen:
    """Raises BadQuestionError."""
    names = {relative(horizon_s): horizon_s for horizon_s in horizons}
    shortest = next(iter(names), "30m")
    horizon = choice(parameters, "horizon", tuple(names), shortest) if names else shortest
    horizon_s = names.get(horizon, 1800)
    filters = {name: value for name in FACETS if (value := single(parameters, name, ""))}
    return Chosen(
        parse(single(parameters, "from", before(horizon_s)), single(parameters, "to", "now"), now_s * SECOND_NS),
        choice(parameters, "measure", Measure.values, Measure.REQUESTS),
        horizon_s,
        {name: "" if value == UNKNOWN else value for name, value in filters.items()},
    )


def before(horizon_s: int) -> str:
    """How much of the past is shown by default: so much that the forecast is a good part of the chart."""
    return "now-6h" if horizon_s <= 2 * 3600 else "now-3d" if horizon_s <= 86_400 else "now-7d"


def filter_context(chosen: Chosen, every: Sequence[StoredForecast], horizons: Sequence[int]) -> dict[str, Any]:
    question, pairs = links.plain(chosen.range), chosen.pairs
    wider = links.wider(question)

    def query(other: Question) -> str:
        return replaced(pairs, **{"from": other.range.from_text, "to": other.range.to_text})

    return {
        "measures": choices(pairs, "measure", MEASURES, chosen.measure),
        "horizons": choices(
            pairs,
            "horizon",
            {relative(horizon_s): PAGE.duration(horizon_s) for horizon_s in horizons},
            relative(chosen.horizon_s),
        ),
        "ranges": presets(question, query, RANGES),
        "wider": query(wider) if wider else "",
        "unfiltered": replaced(pairs, **dict.fromkeys(FACETS, "")) if chosen.filters else "",
        "facets": [
            facet(
                name,
                name,
                sorted({getattr(row, name) or UNKNOWN for row in every}),
                [chosen.filters[name] or UNKNOWN] if name in chosen.filters else [],
            )
            for name in FACETS
        ],
        "kept": pairs[:4],
    }


def series_row(row: StoredForecast, chosen: Chosen, now_s: int) -> dict[str, Any]:
    """A series of the table: the highest steps of its forecast."""
    forecast = row.to_forecast()
    unit = UNITS[chosen.measure]
    median, p90 = (float(forecast.at(level).max(initial=0.0)) for level in (0.5, 0.9))
    age_s = max(0.0, (timezone.now() - row.made_at).total_seconds())
    return {
        "row": row,
        "forecast": forecast,
        "model": row.model or UNKNOWN,
        "tier": row.tier or UNKNOWN,
        "region": row.region or UNKNOWN,
        "query": replaced(chosen.pairs, **{name: getattr(row, name) or UNKNOWN for name in FACETS}),
        "peak": p90,
        "peak_median": per_second(median, unit),
        "peak_p90": per_second(p90, unit),
        "skill": PAGE.share(row.skill),
        "age_s": age_s,
        "stale": age_s > STALE_AFTER * renewed_s(row.horizon_s) or forecast.end_s <= now_s,
        "over": forecast.end_s <= now_s,
    }


def shown_context(shown: dict[str, Any], chosen: Chosen, now_s: int) -> dict[str, Any]:
    """The series that is drawn. Without the store, its forecast alone."""
    row: StoredForecast = shown["row"]
    forecast: Forecast = shown["forecast"]
    window = chosen.range.window
    from_s = window.from_ns // SECOND_NS
    to_s = max(forecast.end_s, now_s) if chosen.range.live else window.to_ns // SECOND_NS
    context: dict[str, Any] = {"store_away": False}
    try:
        then = record_of(row, from_s, min(to_s, now_s))
    except StoreUnavailableError:
        nothing = Series(from_s // row.step_s * row.step_s, row.step_s, forecast.median[:0])
        then = ForecastThen(*[nothing] * 6)
        context["store_away"] = True
    came = then.came
    apart = [
        (name, series)
        for name, series in (("shed", then.shed), ("over limits", then.limited), ("from cache", then.from_cache))
        if len(series)
    ]
    events = list(PlannedEvent.objects.filter(enabled=True, start__lte=datetime.fromtimestamp(to_s, UTC)))
    newest = next((value for value in came.values[::-1].tolist() if not math.isnan(value)), None)
    unit = UNITS[row.measure]
    return context | {
        "shown": shown
        | {
            "name": ", ".join(getattr(row, name) or UNKNOWN for name in FACETS),
            "now": None if newest is None else per_second(newest, unit),
            "now_words": f"came in the last {PAGE.duration(came.step_s)} that were measured",
            "history": PAGE.duration(row.start_s - row.history_from_s),
            "gaps": "" if not row.gap_steps else PAGE.share(row.gap_steps / max(1, row.gap_steps + row.measured_steps)),
            "nothing_came": bool(len(came)) and newest is None,
        },
        "figure": forecast_figure(
            came,
            forecast,
            Earlier(then.median, then.p90, max(JOINED_S, 2 * row.step_s))
            if np.isfinite(then.median.values).any()
            else None,
            apart,
            [event for each in events if (event := event_of(each, row)) and event.to_s > from_s],
            unit=unit,
            shown_s=(from_s, to_s),
            now_s=now_s,
            key=replaced(chosen.pairs),
        ),
        "record": record_facts(then, row),
        "levels": [f"P{level * 100:g}" for level in LEVELS],
        "forecast_rows": [
            {
                "start_s": forecast.start_s + at * forecast.step_s,
                "values": [per_second(float(forecast.quantiles[level][at]), unit) for level in LEVELS],
            }
            for at in range(min(len(forecast), MAX_STEPS))
        ],
        "apart_names": [name for name, _ in apart],
        "came_rows": came_rows(then, apart, unit),
        "came_left_out": max(0, len(came) - MAX_STEPS),
        "candidates": candidate_rows(row),
        "changes": CandidateChange.objects.filter(
            model=row.model, tier=row.tier, region=row.region, measure=row.measure, horizon_s=row.horizon_s
        )[:10],
    }


def event_of(event: PlannedEvent, row: StoredForecast) -> Event | None:
    """The event, where it is of this series."""
    if any(getattr(event, name) not in ("", getattr(row, name)) for name in FACETS):
        return None
    start_s = int(event.start.timestamp())
    return Event(start_s, start_s + event.duration_s, event.name)


def record_facts(then: ForecastThen, row: StoredForecast) -> list[dict[str, str]]:
    """How earlier forecasts of the shown time did."""
    ahead = PAGE.duration(row.horizon_s)
    coverage = then.p90_coverage
    off = coverage is not None and abs(coverage - 0.9) > BAD_COVERAGE
    return [
        {
            "name": "steps with a forecast and what came",
            "value": PAGE.count(then.steps),
            "words": f"{ahead} ahead, in the shown time",
            "tone": "",
        },
        {"name": "error of P50 (WAPE)", "value": PAGE.share(then.wape), "words": "of all that came", "tone": ""},
        {
            "name": "P90 held",
            "value": f"{'▲ ' if off else ''}{PAGE.share(coverage)}",
            "words": "of the steps; 90 % is right",
            "tone": "warn" if off else "",
        },
        {
            "name": "skill in the backtest",
            "value": PAGE.share(row.skill),
            "words": "less pinball loss than the baseline",
            "tone": "",
        },
    ]


def came_rows(then: ForecastThen, apart: Sequence[tuple[str, Series]], unit: str) -> list[dict[str, Any]]:
    """The newest first; a gap is a dash."""
    came = then.came
    columns = [came, then.median, then.p90, *(series for _, series in apart)]
    return [
        {
            "start_s": came.start_s + at * came.step_s,
            "values": [
                per_second(float(each.values[at]), unit if number < 3 else "requests/s")
                for number, each in enumerate(columns)
            ],
        }
        for at in range(len(came) - 1, max(-1, len(came) - 1 - MAX_STEPS), -1)
    ]


def candidate_rows(row: StoredForecast) -> list[dict[str, Any]]:
    """What the backtest found of each candidate, the lowest loss first, and why it is not the one that is used."""
    choice = row.to_choice()
    chosen = next((each for each in choice.scores if each.candidate == choice.candidate), None) if choice else None
    if choice is None or chosen is None:
        return []
    return [
        {
            "name": score.candidate,
            "current": score.candidate == row.candidate,
            "loss": "–" if score.loss is None else f"{score.loss:.3g}",
            "skill": PAGE.share(score.skill),
            "why_not": ""
            if score.candidate == row.candidate
            else why_not(score, chosen)
            or f"{words(row.candidate).capitalize()} stands in, while it is more wrong than it was.",
        }
        for score in sorted(choice.scores, key=lambda score: inf if score.loss is None else score.loss)
    ]
