"""The quarter's worksheet: peak, tokens, batches, GPU-hours and cost of each region and month, as a table, CSV and a picture."""

import time
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from controlplane.core.formatting import PAGE
from controlplane.dashboard.core.figures.plan import regions_figure
from controlplane.dashboard.core.plan_tables import basis_words, known_cost
from controlplane.dashboard.history import synthetic
from controlplane.dashboard.views.common import page
from controlplane.dashboard.views.planning.frame import choices, framed, level_of, levels, missing, per_second, replaced
from controlplane.planning.quarter import Quarter, quarters_from
from controlplane.planning.questions import planned_quarter, quarter_of
from controlplane.telemetry.query.core.errors import BadQuestionError
from controlplane.telemetry.query.core.parameters import single
from forecasting.capacity.assumptions import HOUR_S
from forecasting.capacity.worksheet import Worksheet, WorksheetRow, worksheet

OFFERED = 5
GROWTHS = ("0", "1", "2", "5")


@require_safe
@page
def planning_worksheet(request: HttpRequest) -> HttpResponse:
    """`?quarter=2027-Q1`, `q`, `growth` in percent a week."""
    parameters = dict(request.GET.lists())
    now_s = int(time.time())
    offered = quarters_from(now_s, OFFERED)
    quantiles, level = levels(parameters)
    quarter = quarter_of(single(parameters, "quarter", ""))
    growth = growth_of(single(parameters, "growth", "0"))
    plan = planned_quarter(quarter, level_of(level), growth)
    sheet = worksheet(plan)
    pairs = [("quarter", quarter.name), ("q", level), ("growth", f"{growth:g}")]
    names = {each.name: each.name for each in offered} | {quarter.name: quarter.name}
    priced = any(pool.usd_per_gpu_hour > 0 for pool in plan.pools)
    totals = [row for row in sheet.rows if row.region and not row.month]
    context: dict[str, Any] = {
        "quarters": choices(pairs, "quarter", names, quarter.name),
        "levels": choices(pairs, "q", quantiles, level),
        "growths": choices(pairs, "growth", {value: f"{value} %" for value in GROWTHS}, f"{growth:g}"),
        "quarter": quarter.name,
        "percent": f"{plan.level * 100:g}",
        "growth": f"{growth:g}" if growth else "",
        "rows": [sheet_row(row, priced) for row in sheet.rows if row.region] if plan.pools else [],
        "total": sheet_row(sheet.rows[-1], priced) if plan.pools else None,
        "part": part_words(sheet, quarter),
        "notes": sheet.notes,
        "missing": missing(plan),
        "synthetic": synthetic(now_s - 28 * 24 * HOUR_S, now_s),
        "csv": f"{reverse('api:worksheet_csv')}?"
        + replaced([], quarter=quarter.name, level=f"{plan.level:g}", growth=f"{growth:g}"),
    }
    if totals:
        context["figure"] = regions_figure(
            [row.region for row in totals],
            [round(row.gpu_hours, 2) for row in totals],
            [round(row.cost_usd, 2) if priced else None for row in totals],
            replaced(pairs),
        )
    return framed(request, "Quarter's worksheet", "_worksheet.html", context)


def growth_of(text: str) -> float:
    """Percent a week. Raises BadQuestionError."""
    try:
        growth = float(text)
    except ValueError:
        growth = float("nan")
    if not -50 <= growth <= 50:
        raise BadQuestionError("growth", text, "is not a number from -50 to 50", "Write percent a week, such as 2")
    return growth


def sheet_row(row: WorksheetRow, priced: bool) -> dict[str, Any]:
    def least(value: float | None, text: str) -> str:
        return "not known" if value is None else f"{'≥ ' if row.unforecast else ''}{text}"

    return {
        "row": row,
        "month": row.month or "quarter",
        "peak": least(row.peak_rps, per_second(row.peak_rps, "requests/s")),
        "input_tokens": least(row.input_tokens, amount(row.input_tokens)),
        "output_tokens": least(row.output_tokens, amount(row.output_tokens)),
        "forecast": basis_words(row.basis),
        "batching_factor": PAGE.number(row.batching_factor),
        "cost": known_cost(row.cost_usd, row) if priced else "no price",
        "lines_cost": PAGE.usd(row.lines_cost_usd) if row.lines_cost_usd else "",
    }


def amount(value: float | None) -> str:
    """A large number, such as tokens of a quarter: `1.23 G`, `45.6 M`."""
    if value is None:
        return PAGE.number(None)
    for scale, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= scale:
            return f"{PAGE.number(value / scale)}{PAGE.space}{prefix}"
    return PAGE.number(value)


def part_words(sheet: Worksheet, quarter: Quarter) -> str:
    """Which part of the quarter the worksheet covers, where it has begun."""
    covered = sheet.rows[-1].covered_hours if sheet.rows else 0
    if not covered or covered >= quarter.hours:
        return ""
    return f"The last {PAGE.duration(covered * HOUR_S)} of it: the quarter has begun"
