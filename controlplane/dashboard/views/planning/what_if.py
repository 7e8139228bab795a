"""What if: plans of several scenarios side by side. The URL holds every scenario as text."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.views.decorators.http import require_safe

from controlplane.core.formatting import PAGE
from controlplane.dashboard.core.figures.plan import compared_figure
from controlplane.dashboard.core.plan_tables import BINDS, all_replicas, known_cost
from controlplane.dashboard.core.screen import link_query
from controlplane.dashboard.history import synthetic
from controlplane.dashboard.views.common import page
from controlplane.dashboard.views.planning.frame import choices, framed, level_of, levels, missing, per_second
from controlplane.dashboard.views.planning.plan import HOURS
from controlplane.planning.inputs import plan_inputs
from controlplane.planning.questions import compared, scenario_of, this_hour_s
from controlplane.telemetry.query.core.errors import BadQuestionError
from controlplane.telemetry.query.core.parameters import choice, single
from forecasting.capacity.assumptions import HOUR_S, PlanInputs
from forecasting.capacity.plan import Plan
from forecasting.capacity.scenario import MAX_SCENARIOS, Scenario, scenario_text
from forecasting.capacity.what_if import Totals, WhatIf

USUAL = (Scenario(peak=2), Scenario(outputs=1.3), Scenario(hit_rate=-10))
"""Compared where the URL names none."""
FIELDS = (
    "peak",
    "inputs_percent",
    "outputs_percent",
    "hit_rate",
    "gpu",
    "lost",
    "launch_model",
    "launch_rps",
    "launch_date",
)
"""Of the form that adds a scenario."""


@require_safe
@page
def what_if(request: HttpRequest) -> HttpResponse:
    """`?scenario=` may be repeated; `hours` and `q` are of all. A form that is sent becomes one more scenario of the URL."""
    parameters = dict(request.GET.lists())
    hours = choice(parameters, "hours", tuple(HOURS), "168")
    offered, level = levels(parameters)
    own = [("hours", hours), ("q", level)]
    texts = parameters.get("scenario")
    scenarios = list(USUAL) if texts is None else [scenario_of(text) for text in texts if text]
    if any(single(parameters, name, "") for name in FIELDS):
        added = [scenario for scenario in (scenario_of_form(parameters),) if scenario not in (Scenario(), *scenarios)]
        return HttpResponseRedirect(f"{request.path}?{address(own, [*scenarios, *added])}")
    inputs = plan_inputs(this_hour_s(), int(hours), level_of(level))
    made = compared(inputs, scenarios)
    base = made[0]
    context: dict[str, Any] = {
        "lengths": choices(scenario_pairs(own, scenarios), "hours", HOURS, hours),
        "levels": choices(scenario_pairs(own, scenarios), "q", offered, level),
        "kept": scenario_pairs(own, scenarios),
        "chips": chips(own, scenarios),
        "suggested": suggested(own, scenarios, inputs),
        "full": len(scenarios) >= MAX_SCENARIOS - 1,
        "gpus": sorted({gpu for pool in inputs.pools for gpu in pool.capacities} | set(inputs.usd_per_gpu_hour)),
        "regions": sorted({pool.region for pool in inputs.pools}),
        "models": sorted({pool.model for pool in inputs.pools}),
        "synthetic": synthetic(this_hour_s() - 28 * 24 * HOUR_S, this_hour_s()),
        "missing": missing(base.plan) if base.plan else [base.error],
    }
    if base.plan is not None and base.totals is not None and base.plan.pools:
        context |= compared_context(made, base.plan, base.totals)
    return framed(request, "What if", "_what_if.html", context)


def scenario_of_form(parameters: Mapping[str, Sequence[str]]) -> Scenario:
    """The scenario of the form. Raises BadQuestionError, naming the field."""

    def number(name: str) -> float | None:
        text = single(parameters, name, "").replace(",", ".")
        try:
            return float(text) if text else None
        except ValueError:
            raise BadQuestionError(name, text, "is not a number", "Write a number such as 30 or -10") from None

    peak, inputs, outputs, hit_rate = (number(name) for name in FIELDS[:4])
    launched = [single(parameters, name, "") for name in FIELDS[6:]]
    parts = [
        *([f"peak={peak:g}"] if peak is not None else []),
        *([f"inputs={1 + inputs / 100:g}"] if inputs is not None else []),
        *([f"outputs={1 + outputs / 100:g}"] if outputs is not None else []),
        *([f"hit_rate={hit_rate:g}"] if hit_rate is not None else []),
        *(f"{name}={text}" for name in ("gpu", "lost") if (text := single(parameters, name, ""))),
        *([f"launch={':'.join(launched)}"] if launched[1] or launched[2] else []),
    ]
    return scenario_of(";".join(parts))


def scenario_pairs(own: Sequence[tuple[str, str]], scenarios: Sequence[Scenario]) -> list[tuple[str, str]]:
    return [*own, *(("scenario", scenario_text(scenario)) for scenario in scenarios or [Scenario()])]


def address(own: Sequence[tuple[str, str]], scenarios: Sequence[Scenario]) -> str:
    """Without scenarios it says so with an empty one, as leaving the parameter out means the usual ones."""
    return link_query(scenario_pairs(own, scenarios))


def chips(own: Sequence[tuple[str, str]], scenarios: Sequence[Scenario]) -> list[dict[str, str]]:
    """Each scenario, with the link that removes it."""
    return [
        {
            "name": scenario.name,
            "text": scenario_text(scenario),
            "without": address(own, [*scenarios[:number], *scenarios[number + 1 :]]),
        }
        for number, scenario in enumerate(scenarios)
    ]


def suggested(
    own: Sequence[tuple[str, str]], scenarios: Sequence[Scenario], inputs: PlanInputs
) -> list[dict[str, str]]:
    """Scenarios that are one click away: the usual ones, each GPU type that is not used everywhere, each region lost."""
    used = {pool.gpu for pool in inputs.pools}
    gpus = sorted({gpu for pool in inputs.pools for gpu in pool.capacities} | set(inputs.usd_per_gpu_hour))
    regions = sorted({pool.region for pool in inputs.pools})
    offered = [
        *USUAL,
        *(Scenario(gpu=gpu) for gpu in gpus if used != {gpu}),
        *(Scenario(lost=(region,)) for region in regions if len(regions) > 1),
    ]
    return [
        {"name": scenario.name, "query": address(own, [*scenarios, scenario])}
        for scenario in offered
        if scenario not in scenarios
    ]


def compared_context(made: Sequence[WhatIf], base: Plan, totals: Totals) -> dict[str, Any]:
    plans = [(each.scenario.name, each.plan) for each in made if each.plan is not None]
    priced = any(pool.usd_per_gpu_hour > 0 for pool in base.pools)
    return {
        "columns": [{"name": each.scenario.name, "error": each.error} for each in made],
        "table": figures(made, priced),
        "short": [short(each.totals) for each in made],
        "binds": [binds(each.totals) for each in made],
        "pool_rows": pool_rows(made),
        "length": PAGE.duration(base.hours * HOUR_S),
        "percent": f"{base.level * 100:g}",
        "notes": base.notes,
        "figure": compared_figure([all_replicas(plan, name) for name, plan in plans], "what-if"),
        "dearest": dearest(made, totals, priced),
        "unknown": [pool.pool for pool in base.pools if pool.capacity is None],
        "unforecast": base.unforecast,
    }


def short(totals: Totals | None) -> dict[str, str]:
    """Whether the demand is carried."""
    if totals is None:
        return {"text": "–", "tone": ""}
    if not totals.shortfall_hours:
        return {"text": "○ not known", "tone": "warn"} if totals.unforecast else {"text": "✓ never", "tone": "good"}
    hours = f"▲ {PAGE.count(totals.shortfall_hours)} pool-hours"
    return {"text": f"{hours}, by up to {per_second(totals.most_shortfall_rps, 'requests/s')}", "tone": "warn"}


def binds(totals: Totals | None) -> dict[str, Any]:
    if totals is None:
        return {"look": None, "share": ""}
    return {"look": BINDS[totals.binding], "share": PAGE.share(totals.binding_share)}


def figures(made: Sequence[WhatIf], priced: bool) -> list[dict[str, Any]]:
    """Rows of the table: each figure of each scenario, and how much more than as forecast it is."""

    def row(name: str, values: Sequence[float | None], words: Sequence[str]) -> dict[str, Any]:
        first = values[0]
        return {
            "name": name,
            "cells": [
                {"text": text, "delta": "" if not at or value is None or first is None else delta(value, first)}
                for at, (value, text) in enumerate(zip(values, words, strict=True))
            ],
        }

    every = [each.totals for each in made]

    def of(name: str) -> list[float | None]:
        return [None if totals is None else getattr(totals, name) for totals in every]

    def peak(totals: Totals | None) -> str:
        if totals is None or totals.peak_rps is None:
            return "–" if totals is None else "○ not known"
        return f"{'≥ ' if totals.unforecast else ''}{per_second(totals.peak_rps, 'requests/s')}"

    rows = [
        row("peak demand on replicas", of("peak_rps"), [peak(totals) for totals in every]),
        *(
            row(words, of(name), [PAGE.number(value) for value in of(name)])
            for name, words in (
                ("peak_replicas", "most replicas"),
                ("peak_gpus", "most GPUs"),
                ("gpu_hours", "GPU-hours"),
            )
        ),
    ]
    if priced:
        money = [("cost_usd", "cost")]
        money += [("lines_cost_usd", "of it for work that can wait")] if any(of("lines_cost_usd")) else []
        whole = [totals is not None and not totals.unpriced for totals in every]
        for name, words in money:
            values = of(name)
            comparable = [value if known else None for value, known in zip(values, whole, strict=True)]
            rows.append(
                row(words, comparable, [known_cost(value, totals) for value, totals in zip(values, every, strict=True)])
            )
    return rows


def delta(value: float, first: float) -> str:
    """Against the first: `+30 %`, `2.1×` from double on, `the same`."""
    if math.isclose(value, first, rel_tol=1e-9, abs_tol=1e-9):
        return "the same"
    if first <= 0:
        return f"+{PAGE.number(value - first)}"
    ratio = value / first
    return PAGE.times(ratio) if ratio >= 1.95 else f"{'+' if ratio > 1 else '−'}{PAGE.share(abs(ratio - 1))}"


def pool_rows(made: Sequence[WhatIf]) -> list[dict[str, Any]]:
    """The most replicas of each pool, by scenario."""
    names = list(dict.fromkeys(pool.pool for each in made if each.plan for pool in each.plan.pools))
    by_plan = [{pool.pool: pool for pool in each.plan.pools} if each.plan else {} for each in made]
    return [
        {
            "pool": name,
            "cells": [
                {
                    "most": int(pools[name].replicas.max(initial=0)) if name in pools else None,
                    "short": name in pools and bool((pools[name].shortfall_rps > 0).any()),
                }
                for pools in by_plan
            ],
        }
        for name in names
    ]


def dearest(made: Sequence[WhatIf], base: Totals, priced: bool) -> dict[str, str] | None:
    """The scenario that adds most cost (or GPU-hours), for the sentence above the table; None where none adds any."""
    priced = priced and not any(each.totals.unpriced for each in made if each.totals is not None)
    name = "cost_usd" if priced else "gpu_hours"
    others = [each for each in made[1:] if each.totals is not None]
    most = max(others, key=lambda each: getattr(each.totals, name), default=None)
    if most is None or most.totals is None or getattr(most.totals, name) <= getattr(base, name):
        return None
    more = getattr(most.totals, name) - getattr(base, name)
    return {"name": most.scenario.name, "more": PAGE.usd(more) if priced else f"{PAGE.number(more)} GPU-hours"}
