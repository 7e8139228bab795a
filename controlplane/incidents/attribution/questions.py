"""Queries the store for what one alert burns, as JSON that its incident keeps."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, cast

from controlplane.incidents.attribution.core import alert_record
from controlplane.incidents.attribution.core.since import since_ns
from controlplane.slo.core.alert import Alert
from controlplane.slo.core.count_plan import cut
from controlplane.slo.core.sli import Latency
from controlplane.telemetry.core.objective_counts import AVAILABILITIES, Cut
from controlplane.telemetry.core.query_types import Dimension, Filters, Window
from controlplane.telemetry.explain.difference import Explanation, Finding, Split, explain
from controlplane.telemetry.explain.figures import Serving
from controlplane.telemetry.query.causes import causes_of
from controlplane.telemetry.query.core.question import Question
from controlplane.telemetry.query.core.slow import Slow
from controlplane.telemetry.query.core.timerange import TimeRange
from controlplane.telemetry.store import Store

SECOND_NS = 10**9
NS_PER_MS = 10**6
MIN_STEP_S = 60
PRESENT_S = 300  # the shortest window by which objectives are judged
MAX_STEPS = 360
AROUND = 1 / 4  # of the window: how much of the time before it the chart shows
MAX_FINDINGS = 6
MAX_CAUSES = 3
HOLDS_NEARLY_ALL = 0.9
SIDES: tuple[Dimension, ...] = (
    "model", "pool", "variant", "region", "replica", "tier", "tenant", "prompt_bucket", "cache",
)  # fmt: skip
"""From the general to the particular. A value that is of the same requests as an earlier one appears under the earlier name."""


def attribution_of(store: Store, alert: Alert) -> dict[str, Any] | None:
    """None where no counted request is bad, or where the ledger cannot answer. Raises StoreUnavailableError and StoreError."""
    judged = cut(alert.objective.indicator)
    if judged is None:
        return None
    length_s = alert_record.looked_back_s(alert)
    to_ns = alert.at_ns + SECOND_NS
    looked = Window(to_ns - length_s * SECOND_NS, to_ns)
    step_s = max(MIN_STEP_S, -(-length_s // MAX_STEPS // 60) * 60)
    wide = Window(looked.from_ns - int(length_s * AROUND) * SECOND_NS, to_ns)
    steps = store.burned.series(wide, filters(alert), judged, step_s)
    inside = [step for step in steps if step.start_ns + step_s * SECOND_NS > looked.from_ns]
    began = since_ns(inside, alert_record.quantile(alert.objective), step_s * SECOND_NS)
    if began is not None:  # the first bad request, not the start of its step, which may be many minutes earlier
        first_step = Window(began, min(began + step_s * SECOND_NS, to_ns))
        began = store.burned.first_bad_ns(first_step, filters(alert), judged) or began
    window = Window(began if began is not None else looked.from_ns, to_ns)
    dimensions = [name for name in SIDES if name not in alert.scope]
    total, split = store.burned.splits(looked, filters(alert), judged, dimensions)
    if not total.chosen.requests:
        return None
    explanation = explain(total, split, MAX_FINDINGS)
    unit = NS_PER_MS if isinstance(alert.objective.indicator, Latency) else 1
    value = store.burned.value(window, filters(alert), judged, alert_record.quantile(alert.objective))
    errors = _errors(store, looked, alert, judged)
    bad = max(
        total.chosen.requests, sum(error["requests"] for error in errors)
    )  # more were stored between the two reads
    return {
        "from_ns": looked.from_ns,
        "to_ns": to_ns,
        "since_ns": began,
        "value": value,
        "bad": bad,
        "total": bad + total.rest.requests,
        "stages": stages(explanation, total),
        "errors": errors,
        "segments": [asdict(finding) for finding in (*explanation.findings, *where(explanation.findings, split))],
        "explain": means(explanation, unit),
        "traces": store.burned.traces(window, filters(alert), judged),
        "causes": [],
        "step_s": step_s,
        "steps": [[step.start_ns, step.bad, step.total] for step in steps],
    }


def _errors(store: Store, looked: Window, alert: Alert, judged: Cut) -> list[dict[str, Any]]:
    if judged.measure not in AVAILABILITIES:
        return []
    return [asdict(error) for error in store.burned.errors(looked, filters(alert), judged)]


def value(store: Store, alert: Alert, began_ns: int | None) -> float | None:
    """The present value, as in `attribution_of`, over PRESENT_S up to the alert, and of nothing from before it began: that would look
    like recovery. None where nothing was counted.

    Raises the store's errors.
    """
    judged = cut(alert.objective.indicator)
    if judged is None:
        return None
    to_ns = alert.at_ns + SECOND_NS
    window = Window(max(to_ns - PRESENT_S * SECOND_NS, began_ns or 0), to_ns)
    return store.burned.value(window, filters(alert), judged, alert_record.quantile(alert.objective))


def stages(explanation: Explanation, total: Split) -> list[dict[str, Any]]:
    """Shares of what the bad requests took beyond the good ones, in those stages where they took longer, the greatest first.
    Where there is no good one to compare with, of all that they took."""
    spent = {part.stage: part.ns for part in explanation.stages} if explanation.stages else _means(total)
    longer = {stage: ns for stage, ns in spent.items() if ns > 0}
    whole = sum(longer.values())
    ranked = sorted(longer.items(), key=lambda item: (-item[1], item[0]))
    return [{"stage": stage, "share": ns / whole, "ns": ns} for stage, ns in ranked]


def _means(total: Split) -> dict[str, float]:
    return {stage: total.chosen.mean_ns(stage) for stage in total.chosen.stage_ns}


def causes(alert: Alert, serving: Mapping[str, Serving]) -> list[dict[str, Any]]:
    """Known causes of latency that show in the pools concerned, the costliest first. `serving`: what is known of their servers."""
    if not isinstance(alert.objective.indicator, Latency):
        return []
    to_ns = alert.at_ns + SECOND_NS
    window = Window(to_ns - alert_record.looked_back_s(alert) * SECOND_NS, to_ns)
    question = Question(TimeRange("", "", window), filters(alert))
    return [
        {
            "pool": known_cause.pool,
            "name": known_cause.cause.name,
            "summary": known_cause.cause.summary,
            "cost_ms": known_cause.cost_ms,
        }
        for known_cause in causes_of(question, Slow(), serving).named[:MAX_CAUSES]
    ]


def filters(alert: Alert) -> Filters:
    return cast(Filters, {name: (value,) for name, value in alert.scope.items()})


def where(findings: Sequence[Finding], split: dict[str, dict[str, Split]]) -> list[Finding]:
    """The pool that holds nearly all of the bad requests, though it may hold the others too: somebody has to look there."""
    named = {  # that no replica took them says nothing of a place
        name for finding in findings for name, value in ((finding.dimension, finding.value), *finding.same_as) if value
    }
    pools = split.get("pool", {})
    bad = sum(pool_split.chosen.requests for pool_split in pools.values())
    good = sum(pool_split.rest.requests for pool_split in pools.values())
    if named & {"pool", "replica"} or not bad:
        return []
    value, most = max(pools.items(), key=lambda item: item[1].chosen.requests)
    if not value or most.chosen.requests < HOLDS_NEARLY_ALL * bad:
        return []
    return [
        Finding(
            "pool", value, 0.0, most.chosen.requests, most.rest.requests,
            chosen_share=most.chosen.requests / bad,
            rest_share=most.rest.requests / good if good else 0.0,
            lift=None, stage="", stage_ns=0.0, exemplars=tuple(most.exemplars),
        )
    ]  # fmt: skip


def means(explanation: Explanation, unit: int) -> dict[str, Any]:
    return {
        "bad": explanation.chosen,
        "good": explanation.rest,
        "bad_mean": explanation.chosen_mean_ns / unit,
        "good_mean": explanation.rest_mean_ns / unit,
        "dimensions": [{"dimension": part.dimension, "share": part.share} for part in explanation.dimensions],
    }
