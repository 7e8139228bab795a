"""An alert's objective and figures as JSON, which its incident keeps."""

import math
from typing import Any

from controlplane.slo.core.alert import Alert
from controlplane.slo.core.burn import worst
from controlplane.slo.core.objective import Objective, Rolling, Timeslices
from controlplane.slo.core.sli import Availability, Cost, Histogram, Latency


def definition(objective: Objective) -> dict[str, Any]:
    """The objective: kind (latency, availability, cost, or the indicator's own name), thresholds with their units, target."""
    return {
        **indicator(objective),
        "target": objective.target,
        "quantile": quantile(objective),
        "period_s": objective.period.period_s if isinstance(objective.period, Rolling) else None,
        "revision": objective.revision,
        "description": objective.description,
    }


def quantile(objective: Objective) -> float:
    """The share of requests that must be good, 0..1, exclusive: of timeslices, within each slice."""
    method = objective.method
    return min(method.slice_target, 1 - 1e-6) if isinstance(method, Timeslices) else objective.target


def indicator(objective: Objective) -> dict[str, Any]:
    match objective.indicator:
        case Latency() as latency:
            return {
                "kind": "latency",
                "measure": latency.measure,
                "threshold_ms": latency.threshold_ms,
                "ttft_definition": latency.ttft_definition if latency.measure == "ttft" else "",
            }
        case Availability():
            return {"kind": "availability"}
        case Cost() as cost:
            return {"kind": "cost", "usd_per_1k_tokens": cost.usd_per_1k_tokens}
        case Histogram() as histogram:
            return {"kind": "histogram", "metric": histogram.metric, "threshold": histogram.threshold}


def burning(alert: Alert) -> dict[str, Any]:
    """Burn rates and the budget at `at_ns`; what is not known is None, as is `lasts_s` where nothing burns."""
    return {
        "at_ns": alert.at_ns,
        "state": alert.state,
        "severity": alert.severity,
        "windows": [verdict.document() for verdict in alert.verdicts],
        "left_share": alert.budget.left_share if alert.budget else None,
        "bad": alert.budget.bad if alert.budget else None,
        "allowed": alert.budget.allowed if alert.budget else None,
        "unmeasured_s": alert.unmeasured_s,
        "lasts_s": None if alert.lasts_s == math.inf else alert.lasts_s,
    }


def looked_back_s(alert: Alert) -> int:
    """The long window of the worst verdict, s: how far back the burning may have begun."""
    worst_verdict = worst(list(alert.verdicts))
    return worst_verdict.window.long_s if worst_verdict else 3600
