"""Previews a canary: how long its test would take at the recorded rate, and whether its requests suffice for a verdict."""

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from controlplane.policy.canary_counts import summed
from controlplane.policy.core.canary import test_of
from controlplane.policy.core.sequential import requests_needed
from controlplane.policy.core.spec import Canary, CanarySpec
from controlplane.policy.preview.common import DAY_S, NS_PER_S, CannotPreviewError, Report, window
from controlplane.telemetry.core.canary_rows import CanaryReading
from controlplane.telemetry.query import answers

HOUR_S = 3_600
MIN_ANSWERED = 100
"""Fewer requests of the baseline say little of its latency."""
NOTE = (
    "Rates, latency and failures are those of the baseline in that time, at the mean rate of all hours. What the candidate is really "
    "like cannot be known before it serves; nor what its replicas carry, nor how long they take to be warm."
)


def preview_canary(policy: Canary, report: Report) -> dict[str, Any]:
    """Raises CannotPreviewError, and the errors of the store."""
    spec = policy.spec
    report(0.0, "reads recorded requests of the baseline")
    whole = window()
    covered_s = answers.covered_ns(whole, whole.to_ns) / NS_PER_S
    reading = answers.store().canaries.reading(
        spec.model,
        spec.baseline,
        spec.candidate,
        [whole.from_ns],
        whole.to_ns,
        spec.latency_quantile,
        spec.latency_tolerance,
    )
    counts = summed(spec, reading, [0], 0)
    [stratum] = counts.strata
    arm, effect = stratum.baseline, counts.baseline_design_effect
    if arm.answered < MIN_ANSWERED or not covered_s:
        raise CannotPreviewError(
            f"{arm.answered:,} answers of baseline {spec.baseline!r} to requests for {spec.model!r} were recorded in the last "
            f"14 days, and {MIN_ANSWERED} are needed: send some first"
        )
    counted = arm.requests + stratum.candidate.requests  # what the two would share
    rps = counted / covered_s
    steps = list(_steps(spec, rps))
    days = _days(reading)
    return {
        "kind": "Canary",
        "model": spec.model,
        "revision": {
            "steps": steps,
            "most_hours": sum(each["hours"] for each in steps),
            "max_requests": spec.max_requests,
            "requests_needed": requests_needed(test_of(spec), arm, spec.steps[-1] / 100, effect),
        },
        "baseline": {
            "rps": rps,
            "busiest_day_rps": max(days, default=None),
            "quietest_day_rps": min(days, default=None),
            "quantile_ms": reading.quantiles_ms.get((0, spec.baseline)),
            "failed_share": arm.failed / arm.requests,
            "design_effect": effect,
        },
        "requests": counted,
        "days": round(covered_s / DAY_S, 2),
        "note": NOTE,
    }


def _steps(spec: CanarySpec, rps: float) -> Iterator[dict[str, Any]]:
    """Percent, requests of the candidate and hours of each step, of a canary that is not decided before its end."""
    edges = [math.ceil(number * spec.max_requests / len(spec.steps)) for number in range(len(spec.steps) + 1)]
    for percent, begin, end in zip(spec.steps, edges, edges[1:], strict=False):
        yield {"percent": percent, "requests": end - begin, "hours": (end - begin) / (rps * percent / 100) / HOUR_S}


def _days(reading: CanaryReading) -> list[float]:
    """Requests/s of both pools on each whole day of UTC."""
    days: defaultdict[int, int] = defaultdict(int)
    for row in reading.rows:
        days[row.minute // 1_440] += row.requests
    whole = sorted(days)[1:-1]
    return [days[day] / DAY_S for day in whole]
