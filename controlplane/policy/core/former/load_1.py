"""The load as decider 1 knew it, from two quick means: its records replay with it."""

import math

from controlplane.policy.core.memory import LoadMemory

SUDDEN_S, QUICK_S = 3.0, 30.0
"""Time constants of two quick means. The errors of such a mean are those of a window of twice its constant."""
STEADY_S = 300.0
"""The steady mean is over at most so long: the step of forecasts, so that both mean the same."""
DISPERSION = 2.0
"""Variance of counted requests over their mean: 1 for Poisson arrivals. Traffic of language models is burstier (ServeGen, arXiv
2505.09999)."""
SURE_OF_SUDDEN, SURE_OF_QUICK = 5.0, 3.0
"""A quick mean replaces the steady one where they differ by more than so many standard errors. Windows of seconds are compared so
often that three would be exceeded by chance every few minutes.
"""


def seen(before: LoadMemory | None, arrived_rps: float | None, now_ms: int) -> LoadMemory | None:
    """What is known of the load after a tick that saw `arrived_rps`; unchanged where it saw nothing.

    The steady mean starts anew where a quick one differs from it by more than chance explains, as in change detection by two windows
    (Bifet and Gavaldà 2007, "Learning from time-changing data with adaptive windowing").
    """
    if arrived_rps is None:
        return before
    passed_s = 0.0 if before is None else (now_ms - before.at_ms) / 1_000
    if before is None or passed_s > STEADY_S:
        return _memory(now_ms, arrived_rps, arrived_rps, arrived_rps, 0.0)
    if passed_s <= 0:
        return before
    over_s = min(before.over_s + passed_s, STEADY_S)
    sudden = _moved(
        before.quick_rps if before.sudden_rps is None else before.sudden_rps,
        arrived_rps,
        passed_s,
        min(SUDDEN_S, over_s),
    )
    quick = _moved(before.quick_rps, arrived_rps, passed_s, min(QUICK_S, over_s))
    steady = before.steady_rps + (arrived_rps - before.steady_rps) * min(1.0, passed_s / over_s)
    if _differ(sudden, steady, max(2 * SUDDEN_S, passed_s), over_s, SURE_OF_SUDDEN):
        return _memory(now_ms, sudden, sudden, sudden, passed_s)
    if _differ(quick, steady, max(2 * QUICK_S, passed_s), over_s, SURE_OF_QUICK):
        # It has moved a part of the way only: what comes next is to count for more.
        return _memory(now_ms, sudden, quick, quick, QUICK_S)
    return _memory(now_ms, sudden, quick, steady, over_s)


def _memory(at_ms: int, sudden_rps: float, quick_rps: float, steady_rps: float, over_s: float) -> LoadMemory:
    return LoadMemory(at_ms=at_ms, sudden_rps=sudden_rps, quick_rps=quick_rps, steady_rps=steady_rps, over_s=over_s)


def _moved(mean: float, value: float, passed_s: float, constant_s: float) -> float:
    """An exponentially weighted mean after another value."""
    return mean + (value - mean) * (1 - math.exp(-passed_s / constant_s))


def _differ(short: float, long: float, short_s: float, long_s: float, sure: float) -> bool:
    """Whether two means of rates differ by more than `sure` standard errors, if the longer one is right."""
    variance = DISPERSION * max(long, 1 / STEADY_S)
    return abs(short - long) > sure * math.sqrt(variance * (1 / min(short_s, long_s) + 1 / long_s))
