"""How many requests arrive, from ticks that each see few: steady while nothing changes, and quick when something does."""

import math

from msgspec import structs

from controlplane.policy.core.memory import LoadMemory

STEADY_S = 300.0
"""The steady mean is over at most so long: the step of forecasts, so that both mean the same."""
QUICK_S = 30.0
"""Time constant of the quick mean. Its errors are those of a window of twice its constant."""
FIRST_LOOK_S = 20.0
"""Until a load has been seen for so long, what may be chance of it adds no replica."""
SURE = 3.0
"""The quick mean replaces the steady one where they differ by more than so many standard errors."""
WINDOWS = (1, 2, 3, 5, 10)
"""Numbers of the last ticks whose requests together may show a rise."""
RECENT_S = 10.5
"""Windows of several ticks are not longer."""
BY_CHANCE_S = 7 * 86_400.0
"""Requests that arrive independently, at a steady rate, look like a sudden rise at most once in so long."""
DISPERSION, DISPERSION_S = 2.0, 30.0
"""Variance of counted requests over their mean, before it was measured for longer than so many seconds. 1 is Poisson's; traffic of language
models is burstier (ServeGen, arXiv 2505.09999).
"""
MIN_DISPERSION = 1.02
"""What is less cannot be told from Poisson's in five minutes."""
USUAL_S = 3_600.0
"""Time constant of what is usual: longer than bursts and cold starts, shorter than a day's rise."""
COMPARED_AGAIN_S, AT_A_TIME = 60.0, 4
"""How often the load is kept to be compared a cold start later, and how many times within one at most."""
FADES_S = 6 * 3_600.0
"""Time constant of what was learnt of how long rises last."""
TRUSTED = 1.0
"""Until so much strayed, rises are taken to last: as of ten minutes at twice the usual load, or a day at a tenth above it."""


def seen(
    before: LoadMemory | None,
    arrived_rps: float | None,
    now_ms: int,
    ahead_s: float | None = None,
    heard_s: float | None = None,
) -> LoadMemory | None:
    """What is known of the load after a tick that saw `arrived_rps`; unchanged where it saw nothing. `ahead_s` is a cold start, `heard_s`
    over how long the first rate was measured, None for long.

    The steady mean starts anew where the last ticks had more requests than chance explains, and where the quick mean differs
    from it by more, as in change detection by two windows (Bifet and Gavaldà 2007, "Learning from time-changing data with
    adaptive windowing").
    """
    if arrived_rps is None:
        return before
    passed_s = 0.0 if before is None else (now_ms - before.at_ms) / 1_000
    if before is None or passed_s > STEADY_S:
        return LoadMemory(
            at_ms=now_ms, quick_rps=arrived_rps, steady_rps=arrived_rps, over_s=0.0, shown_s=_short(heard_s)
        )
    if passed_s <= 0:  # the clock was set back: the next tick counts from here
        return structs.replace(before, at_ms=now_ms)
    dispersion, compared_s, differ = _dispersion(before, arrived_rps, passed_s)
    recent = _recent(before, arrived_rps, passed_s)
    over_s = min(before.over_s + passed_s, STEADY_S)
    quick = before.quick_rps + (arrived_rps - before.quick_rps) * (1 - math.exp(-passed_s / min(QUICK_S, over_s)))
    steady = before.steady_rps + (arrived_rps - before.steady_rps) * min(1.0, passed_s / over_s)
    risen = _risen(before, recent)
    if risen is not None and risen > steady:
        quick = steady = risen
        over_s = passed_s
    elif _differ(quick, steady, max(2 * QUICK_S, passed_s), over_s, max(DISPERSION, dispersion)):
        # It has moved a part of the way only: what comes next is to count for more.
        steady, over_s = quick, QUICK_S
    after = LoadMemory(
        at_ms=now_ms,
        quick_rps=quick,
        steady_rps=steady,
        over_s=over_s,
        recent=recent,
        dispersion=dispersion,
        compared_s=compared_s,
        differ=differ,
        shown_s=None if before.shown_s is None else _short(before.shown_s + passed_s),
    )
    return _usually(before, after, arrived_rps, passed_s, ahead_s)


def _short(shown_s: float | None) -> float | None:
    return shown_s if shown_s is not None and shown_s < FIRST_LOOK_S else None


def shown_share(memory: LoadMemory) -> float:
    """The share of the load (0..1) that is no chance: of what was seen for less than FIRST_LOOK_S, the mean less SURE standard errors."""
    if memory.shown_s is None:
        return 1.0
    requests = memory.steady_rps * memory.shown_s
    return max(0.0, 1 - SURE * math.sqrt(memory.dispersion / requests)) if requests > 0 else 0.0


def lasting_rps(memory: LoadMemory, now_rps: float) -> float:
    """The load that is to be expected when a replica that is created now is ready, where `now_rps` arrive.

    The best linear forecast from how far the load is from the usual: that part of it which, as often as it strayed, was still there a
    cold start later. 1 of it where rises last, and none where bursts are over by then.
    """
    if memory.usual_rps is None:
        return now_rps
    share = min(1.0, max(0.0, (memory.lasted + TRUSTED) / (memory.strayed + TRUSTED)))
    return memory.usual_rps + share * (now_rps - memory.usual_rps)


def _usually(
    before: LoadMemory, after: LoadMemory, arrived_rps: float, passed_s: float, ahead_s: float | None
) -> LoadMemory:
    """The memory with what is usual, and with how much of what strayed from it has lasted."""
    over_s = min(before.usual_over_s + passed_s, USUAL_S)
    known = arrived_rps if before.usual_rps is None else before.usual_rps
    usual = known + (arrived_rps - known) * min(1.0, passed_s / over_s)
    kept, strayed, lasted = before.waited_for, before.strayed, before.lasted
    every_ms = 1_000 * max(COMPARED_AGAIN_S, (ahead_s or 0.0) / AT_A_TIME)
    if ahead_s and (not kept or after.at_ms - kept[-1][0] >= every_ms):
        due = [each for each in kept if after.at_ms - each[0] >= 1_000 * ahead_s]
        fading = math.exp(-every_ms / 1_000 / FADES_S)
        for _, away, usually in due[-1:]:
            strayed = fading * strayed + away**2
            lasted = fading * lasted + away * (after.quick_rps / usually - 1)
        kept = tuple(each for each in kept if each not in due)
        if usual > 0:
            kept = (*kept, (after.at_ms, round(after.quick_rps / usual - 1, 3), float(f"{usual:.5g}")))
    return structs.replace(after, usual_rps=usual, usual_over_s=over_s, waited_for=kept, strayed=strayed, lasted=lasted)


def _recent(before: LoadMemory, arrived_rps: float, passed_s: float) -> tuple[tuple[float, float], ...]:
    """The ticks that windows are made of, the newest first."""
    kept, together_s = [(passed_s, arrived_rps * passed_s)], passed_s
    for seconds, requests in before.recent[: WINDOWS[-1] - 1]:
        together_s += seconds
        if together_s > RECENT_S:
            break
        kept.append((seconds, requests))
    return tuple(kept)


def _dispersion(before: LoadMemory, arrived_rps: float, passed_s: float) -> tuple[float, float, tuple[float, ...]]:
    """Variance over mean of a tick's requests, for how many seconds it was compared, and what is still to be compared.

    Of two Poisson counts of one mean, the squared difference over the sum is 1 on average (von Neumann 1941, who estimates variance from
    differences of neighbours). A difference is counted when the next one is known: as SURE standard errors at most where it stands alone,
    which is a change of the load, and as twice as many where that before or after it is as large, as at both sides of a clump.
    """
    if not before.recent:
        return before.dispersion, before.compared_s, ()
    seconds, requests = before.recent[0]
    now, then = arrived_rps * passed_s, requests / seconds * passed_s
    differ = (*before.differ[-2:], 0.0 if now == then else (now - then) ** 2 / (now + then))
    if len(differ) < 2 or (differ[-2] == then == 0):
        return before.dispersion, before.compared_s, differ
    compared_s = min(before.compared_s + passed_s, STEADY_S)
    share = min(1.0, passed_s / (DISPERSION_S + compared_s))
    surely = SURE**2 * max(MIN_DISPERSION, before.dispersion)
    counted = min(differ[-2], max(surely, differ[-1], *differ[:-2]), 4 * surely)
    return before.dispersion + (counted - before.dispersion) * share, compared_s, differ


def _risen(before: LoadMemory, recent: tuple[tuple[float, float], ...]) -> float | None:
    """The requests/s of a window that has more than chance explains, less a standard error; of several windows the highest."""
    dispersion = max(MIN_DISPERSION, before.dispersion)
    base_rps, base_s = max(before.steady_rps, 1 / STEADY_S), max(before.over_s, recent[0][0])
    windows = [ticks for ticks in WINDOWS if ticks <= len(recent)]
    bound = math.log(recent[0][0] / BY_CHANCE_S / len(windows))
    risen = None
    for ticks in windows:
        seconds = sum(each for each, _ in recent[:ticks])
        requests = sum(each for _, each in recent[:ticks])
        # The steady mean has an error too, which is the larger the shorter it was measured.
        spread = dispersion * (1 + seconds / base_s)
        if _log_chance(requests, base_rps * seconds, spread) < bound:
            least = (requests - math.sqrt(dispersion * requests)) / seconds
            risen = least if risen is None else max(risen, least)
    return risen


def _log_chance(count: float, mean: float, dispersion: float) -> float:
    """Logarithm of an upper bound of the chance that so many or more arrive: a negative binomial's, the law of counts whose variance is
    `dispersion` > 1 times their mean. Its tail is bounded by a geometric series.
    """
    if count <= mean:
        return 0.0
    size = mean / (dispersion - 1)
    share = 1 / dispersion  # size / (size + mean)
    ratio = max(1 - share, (1 - share) * (count + size) / (count + 1))
    if ratio >= 1:
        return 0.0
    first = math.lgamma(count + size) - math.lgamma(size) - math.lgamma(count + 1)
    return first + size * math.log(share) + count * math.log(1 - share) - math.log1p(-ratio)


def _differ(short: float, long: float, short_s: float, long_s: float, dispersion: float) -> bool:
    """Whether two means of rates differ by more than SURE standard errors, if the longer one is right."""
    variance = dispersion * max(long, 1 / STEADY_S)
    return abs(short - long) > SURE * math.sqrt(variance * (1 / min(short_s, long_s) + 1 / long_s))
