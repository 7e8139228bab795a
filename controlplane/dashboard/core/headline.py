"""The one sentence above the chart: how slow, and which stage makes the slow requests slow."""

from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.dashboard.core.palette import BANDS
from controlplane.telemetry.core.query_types import Group, LatencyReport
from controlplane.telemetry.query.core.question import Quantile

FEW_REQUESTS = 20
"""Below this a p95 is one request or none: the sentence says so."""
STEADY_RATIO = 1.25
"""A quantile within this factor of the median: nothing sets the slow requests apart."""
SECOND_SHARE = 0.2
"""A second stage is named from this share on."""
NAMED_SHARE = 0.6
"""A model is named when at least this much of the stage's time is its own."""


@dataclass(frozen=True, slots=True)
class Headline:
    """`cause` is a stage (or "unattributed"), or "" where none stands out. `steady`: shares are of all time, not of the excess.

    Stages in which slow requests were quicker than others are no part of the excess, so that no share is above 1.

    `second` is the stage after it, where that too has a good part.
    """

    quantile: Quantile
    value_ms: float
    cause: str
    share: float
    steady: bool
    model: str
    few: bool
    second: str = ""
    second_share: float = 0.0


def headline(report: LatencyReport | Group, by_model: Mapping[str, Group], quantile: Quantile) -> Headline | None:
    """Of the answered requests; None where there are none."""
    if report.e2e_ms is None:
        return None
    value = getattr(report.e2e_ms, quantile)
    steady = quantile == "p50" or value <= report.e2e_ms.p50 * STEADY_RATIO
    shares = {
        stage: report.stages[stage].share if steady else report.stages[stage].share_above_median
        for stage in BANDS
        if stage in report.stages
    }
    whole = 1.0 if steady else sum(share for share in shares.values() if share > 0) or 1.0
    shares = {stage: share / whole for stage, share in shares.items()}
    ranked = sorted((stage for stage in shares if shares[stage] > 0), key=lambda stage: -shares[stage])
    cause = ranked[0] if ranked else ""
    second = ranked[1] if len(ranked) > 1 and shares[ranked[1]] >= SECOND_SHARE else ""
    return Headline(
        quantile=quantile,
        value_ms=value,
        cause=cause,
        share=shares[cause] if cause else 0.0,
        steady=steady,
        model=_owner(cause, by_model) if cause else "",
        few=report.answered < FEW_REQUESTS,
        second=second,
        second_share=shares.get(second, 0.0),
    )


def _owner(stage: str, by_model: Mapping[str, Group]) -> str:
    """The model that spends most of the stage's time, where one clearly does."""
    spent = {
        model: report.answered * report.stages[stage].mean_ms
        for model, report in by_model.items()
        if model and stage in report.stages
    }
    total = sum(spent.values())
    owner = max(spent, key=lambda model: spent[model], default="")
    return owner if owner and total > 0 and spent[owner] >= NAMED_SHARE * total else ""
