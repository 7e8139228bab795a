"""Previews a canary: how long its test would take at the recorded rate, and how sure its verdict would be."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from controlplane.policy.canaries import summed
from controlplane.policy.core.canary import test_of
from controlplane.policy.core.observation import Arm
from controlplane.policy.core.sequential import requests_needed
from controlplane.policy.core.spec import Canary, CanarySpec
from controlplane.policy.preview.common import DAY_S, NS_PER_S, CannotPreviewError, Report, window
from controlplane.policy.preview.core.trials import HOUR_S, Shares, Trial, steps_of, trial
from controlplane.telemetry.core.canary_rows import CanaryReading
from controlplane.telemetry.query import answers

TRIALS = 1_000
"""Of each kind of candidate: shares are known to within about 2 percent points. A trial takes a third of a millisecond."""
FEWEST = 100
"""Fewer requests of the baseline say little of its latency."""
NOTE = (
    "Rates, latency and failures are those of the baseline in that time, and counts are drawn from them {trials:,} times for each kind "
    "of candidate. The test is the one that judges it in earnest, at the mean rate of all hours. What the candidate is really like "
    "cannot be known before it serves; nor what its replicas carry, nor how long they take to be warm."
)


def preview_canary(policy: Canary, report: Report) -> dict[str, Any]:
    """Raises CannotPreviewError, and the errors of the store."""
    spec = policy.spec
    report(0.0, "reads recorded requests of the baseline")
    store, whole = answers.store(), window()
    covered_s = answers.covered_ns(whole, whole.to_ns) / NS_PER_S

    def read(tolerance: float) -> CanaryReading:
        pools = (spec.baseline, spec.candidate)
        return store.canaries.reading(
            spec.model, *pools, [whole.from_ns], whole.to_ns, spec.latency_quantile, tolerance
        )

    reading = read(spec.latency_tolerance)
    arm, effect, counted = _baseline(spec, reading)
    if arm.answered < FEWEST or not covered_s:
        raise CannotPreviewError(
            f"{arm.answered:,} answers of baseline {spec.baseline!r} to requests for {spec.model!r} were recorded in the last "
            f"14 days, and {FEWEST} are needed: send some first"
        )
    # a candidate that is slower by the tolerance exceeds the quantile where the baseline exceeds the quantile / (1 + tolerance)
    slower_arm, _, _ = _baseline(spec, read(1 / (1 + spec.latency_tolerance) - 1))
    rps = counted / covered_s
    baseline = Shares(arm.failed / arm.requests, arm.slow / arm.answered, arm.too_slow / arm.answered)
    candidates = {
        "equal": baseline,
        "slower": Shares(baseline.failed, slower_arm.too_slow / slower_arm.answered, baseline.slow),
        "failing": baseline._replace(failed=min(1.0, baseline.failed + spec.error_tolerance)),
    }
    random = np.random.default_rng(1)
    outcomes = {}
    for number, (name, candidate) in enumerate(candidates.items()):
        report((number + 0.2) / len(candidates), f"tries a candidate that is {name}")
        trials = [trial(spec, rps, baseline, candidate, (effect, effect), random) for _ in range(TRIALS)]
        outcomes[name] = _outcomes(trials)
    steps = [
        {"percent": percent, "requests": requests, "hours": seconds / HOUR_S}
        for percent, requests, seconds in steps_of(spec, rps)
    ]
    days = _days(reading)
    return {
        "kind": "Canary",
        "model": spec.model,
        "revision": {
            "steps": steps,
            "most_hours": sum(each["hours"] for each in steps),
            "outcomes": outcomes,
            "max_requests": spec.max_requests,
            "requests_needed": requests_needed(test_of(spec), arm, spec.steps[-1] / 100, effect),
        },
        "baseline": {
            "rps": rps,
            "busiest_day_rps": max(days, default=None),
            "quietest_day_rps": min(days, default=None),
            "quantile_ms": reading.quantiles_ms.get((0, spec.baseline)),
            "failed_share": baseline.failed,
            "design_effect": effect,
        },
        "requests": counted,
        "days": round(covered_s / DAY_S, 2),
        "note": NOTE.format(trials=TRIALS),
    }


def _baseline(spec: CanarySpec, reading: CanaryReading) -> tuple[Arm, float, int]:
    """The baseline's requests, its design effect, and the requests of both pools: these are what the two would share."""
    counts = summed(spec, reading, [0], 0)
    [stratum] = counts.strata
    return stratum.baseline, counts.baseline_design_effect, stratum.baseline.requests + stratum.candidate.requests


def _days(reading: CanaryReading) -> list[float]:
    """Requests/s of both pools on each whole day of UTC."""
    days: defaultdict[int, int] = defaultdict(int)
    for row in reading.rows:
        days[row.minute // 1_440] += row.requests
    whole = sorted(days)[1:-1]
    return [days[day] / DAY_S for day in whole]


def _outcomes(trials: Sequence[Trial]) -> dict[str, Any]:
    counts = Counter(each.outcome for each in trials)
    hours = np.array([each.seconds for each in trials]) / HOUR_S
    requests = np.array([each.requests for each in trials])
    return {
        "promoted": counts["promoted"] / len(trials),
        "rolled_back": counts["rolled_back"] / len(trials),
        "held": counts["held"] / len(trials),
        "requests_p50": float(np.quantile(requests, 0.5)),
        "requests_p95": float(np.quantile(requests, 0.95)),
        "hours_p50": float(np.quantile(hours, 0.5)),
        "hours_p95": float(np.quantile(hours, 0.95)),
    }
