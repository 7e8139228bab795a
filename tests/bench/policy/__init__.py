"""The scaling law against the autoscalers that others use and against perfect foresight, on recorded traffic.

Each policy is tuned on the first half of a trace ("week 1"), with requests of one seed, and scored on the second with five others; a
forecast knows only what was known at its time. `TRACE=FILE` takes one trace, `COLD_START=300` another cold start (docs/scaling.md).
"""

import os
import time
from collections.abc import Iterator, Sequence

import numpy as np

from tests.bench.figures import Figure, say
from tests.bench.policy.compete import Result, scored, tuned
from tests.bench.policy.traffic import OBJECTIVE, Trace, capacity, traces

T95 = 2.776
"""Student's t for a 95 % confidence interval of the mean of five."""


def run() -> Iterator[Figure]:
    cold_start_s = float(os.environ.get("COLD_START") or 900)
    for trace in traces(capacity()):
        yield from of_trace(trace, cold_start_s)


def of_trace(trace: Trace, cold_start_s: float) -> Iterator[Figure]:
    began_s = time.monotonic()
    contestants = tuned(trace, cold_start_s, OBJECTIVE.target)
    by_seed = list(scored(trace, cold_start_s, contestants))
    own, references, oracle = ([row[0] for row in by_seed], _columns(by_seed), [row[-1] for row in by_seed])
    for column in (own, *references, oracle):
        cost = mean([each.gpu_hours / best.gpu_hours for each, best in zip(column, oracle, strict=True)])
        say(
            f"{trace.name}, {column[0].contestant}: {mean([each.attainment for each in column]):.3%} good, "
            f"{cost:.3f} of the oracle's GPU-hours, {mean([each.reversals_per_day for each in column]):.1f} reversals a day"
        )
    about = f"{trace.name}, cold start {cold_start_s:g} s, {own[0].contestant}"
    yield _figure("policy.attainment", [each.attainment for each in own], "share", about)
    ratios = [each.gpu_hours / best.gpu_hours for each, best in zip(own, oracle, strict=True)]
    yield _figure("policy.gpu_hours_vs_oracle", ratios, "ratio", about)
    reaching = [column for column in references if mean([each.attainment for each in column]) >= OBJECTIVE.target]
    note = ""
    if reaching:
        best = min(reaching, key=lambda column: mean([each.gpu_hours for each in column]))
    else:
        best = max(references, key=lambda column: mean([each.attainment for each in column]))
        note = f", which is the nearest with {mean([each.attainment for each in best]):.3%}"
    ratios = [each.gpu_hours / other.gpu_hours for each, other in zip(own, best, strict=True)]
    yield _figure("policy.vs_best_reference", ratios, "ratio", f"{about}, to {best[0].contestant}{note}")
    yield _figure("policy.reversals_per_day", [each.reversals_per_day for each in own], "1/day", about)
    say(f"{trace.name}: {time.monotonic() - began_s:.0f} s")


def _columns(by_seed: Sequence[Sequence[Result]]) -> list[list[Result]]:
    return [list(column) for column in zip(*(row[1:-1] for row in by_seed), strict=True)]


def mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def _figure(name: str, values: Sequence[float], unit: str, about: str) -> Figure:
    half = T95 * float(np.std(values, ddof=1)) / len(values) ** 0.5
    middle = mean(values)
    return Figure(name, middle, unit, f"{about}; 95 % CI {middle - half:.5g} to {middle + half:.5g}")
