"""Finds the highest rate that keeps the objectives: which rate is tried next, when a step is decided, and what all steps have shown."""

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Literal

import msgspec

from inference.loadtest.core.objective import Objective
from inference.loadtest.core.samples import CUT_SHORT, Sample

TOLERANCE = 0.03
"""The search ends once the lowest rate that lost is at most so much above the highest that kept."""
CONFIRMED = 2
"""So many more full steps must say the one than the other, at both ends."""
MAX_STEPS_AT = 7
HALVINGS = 6
MAX_RPS = 20_000.0
BETTER, WORSE, ERROR = 0.75, 1.25, 0.05
"""A step tests a share of bad requests of 0.75 times what the objective allows against 1.25 times, with 5 % of either error (Wald)."""
ENOUGH_BAD = 50
"""A step that is not decided when so many bad requests were to be expected is decided by its share."""
QUICK = 20
MAX_CORRELATION = 0.95
STRETCHES, TREND, GROWTH = 8, 16, 0.05
MIN_STEP_S, STEP_THRESHOLDS, MAX_STEP_S = 10.0, 1 / TOLERANCE, 120.0
"""No step keeps an objective in less, or in less than so many times its threshold: where a server gets 3 % more than it can take, waits
grow by 3 % of the time.
"""

Decision = Literal["kept", "lost", "open"]


class Step(msgspec.Struct, frozen=True):
    """A rate as it went. `quick` steps only look for the region in which full ones decide."""

    requests_per_s: float
    judged: int
    bad: int
    kept: bool
    quick: bool
    took_s: float


class Highest(msgspec.Struct, frozen=True):
    """`requests_per_s` kept the objectives, and is within `low` and `high`, of which the latter lost them; None is unknown."""

    requests_per_s: float | None
    low: float | None
    high: float | None
    confirmed: bool
    reason: str
    steps: list[Step]


def least_s(objectives: Sequence[Objective]) -> float:
    """How long a step must last before it keeps."""
    return min(MAX_STEP_S, max(MIN_STEP_S, *(STEP_THRESHOLDS * objective.threshold_s for objective in objectives)))


def outcomes(samples: Sequence[Sample], objective: Objective, now_s: float) -> list[bool]:
    """Good or not, in the order of due times up to the first request of which it is not known: those that are answered first are not
    those that are slow.
    """
    known = []
    for sample in samples:
        if sample.ended_s is not None:
            good = objective.good(sample)
        elif objective.late(sample, now_s):
            good = False
        elif objective.measure == "ttft" and sample.first_s is not None and sample.failure != CUT_SHORT:
            good = sample.first_s - sample.due_s <= objective.threshold_s
        else:
            break
        if good is not None:
            known.append(good)
    return known


def decide(good: Sequence[bool], target: float, *, quick: bool, at_end: bool) -> tuple[Decision, int, int]:
    """By how many requests, and how many bad ones: Wald's test of their share. Neighbours in a queue share what happened, so a request
    counts as the less the more bad ones come together. A quick step keeps by few without a bad one.
    """
    allowed, count, bad = 1 - target, len(good), len(good) - sum(good)
    if count < QUICK:
        return "open", count, bad
    better, worse = BETTER * allowed, min(WORSE * allowed, (1 + allowed) / 2)
    evidence = bad * math.log(worse / better) + (count - bad) * math.log((1 - worse) / (1 - better))
    alike = _alike(good)
    if abs(evidence) / alike >= math.log((1 - ERROR) / ERROR):
        return "lost" if evidence > 0 else "kept", count, bad
    if quick and not bad:
        return "kept", count, bad
    if at_end or count >= ENOUGH_BAD / allowed * alike:
        return "kept" if bad <= allowed * count else "lost", count, bad
    return "open", count, bad


def judge(
    samples: Sequence[Sample], objectives: Sequence[Objective], now_s: float, *, quick: bool, at_end: bool
) -> tuple[Decision, int, int]:
    """Lost where one objective is; kept where all are, and at a rate that could go on: while waits grow, nothing is kept yet."""
    said = []
    for objective in objectives:
        decision, count, bad = decide(outcomes(samples, objective, now_s), objective.target, quick=quick, at_end=at_end)
        if decision == "kept" and not quick and grows(samples, objective):
            decision = "lost" if at_end else "open"
        said.append((decision, count, bad))
    return next((each for decision in ("lost", "open") for each in said if each[0] == decision), said[0])


def grows(samples: Sequence[Sample], objective: Objective) -> bool:
    """Whether requests wait longer and longer, as they do in a queue that gets more than is taken from it: by the trend of the means of
    stretches (Mann and Kendall, 3 %), where it matters beside the threshold.
    """
    times = [value for sample in samples if sample.good and (value := objective.value_s(sample)) is not None]
    size = len(times) // STRETCHES
    if not size:
        return False
    means = [sum(times[number * size : (number + 1) * size]) / size for number in range(STRETCHES)]
    trend = sum((later > earlier) - (later < earlier) for earlier, later in combinations(means, 2))
    return trend >= TREND and means[-1] - means[0] > GROWTH * objective.threshold_s


def _alike(good: Sequence[bool]) -> float:
    """How many requests say as much as one would if they were independent: by the correlation of neighbours (of first order)."""
    count, bad = len(good), len(good) - sum(good)
    if not 0 < bad < count:
        return 1.0
    together = sum(not before and not after for before, after in pairwise(good)) / (count - 1)
    share = bad / count
    correlation = min(max((together - share * share) / (share * (1 - share)), 0.0), MAX_CORRELATION)
    return (1 + correlation) / (1 - correlation)


def next_rate(steps: Sequence[Step], first_rps: float) -> float | None:
    """Rates double until one loses, or halve until one keeps; then the middle of the bracket, until its ends are near each other and both
    are confirmed. None once that is so, or nothing is to be had.
    """
    votes = _votes(steps)
    open_ = [rate for rate, (kept, lost) in votes.items() if kept == lost]
    if open_:
        return open_[0]
    kept, lost = _bracket(steps)
    if kept is None:
        if lost is None:
            return first_rps
        return lost / 2 if lost / 2 >= first_rps / 2**HALVINGS else None
    if lost is None:
        if kept < MAX_RPS:
            return min(2 * kept, MAX_RPS)
        return None if _confirmed(votes[kept]) else kept
    if lost > kept * (1 + TOLERANCE):
        return math.sqrt(kept * lost)
    return next((rate for rate in (kept, lost) if not _confirmed(votes[rate])), None)


def is_quick(steps: Sequence[Step], rate: float) -> bool:
    return all(step.kept and step.requests_per_s != rate for step in steps)


def highest(steps: Sequence[Step], complete: bool) -> Highest:
    """What the steps have shown; not `complete` where they were ended before their time."""
    kept, lost = _bracket(steps)
    votes = _votes(steps)
    sure = complete and kept is not None and lost is not None and _confirmed(votes[kept]) and _confirmed(votes[lost])
    if kept is None:
        reason = "No rate kept the objectives."
    elif lost is None:
        reason = "No rate was seen that loses the objectives."
    else:
        confirmed = ", both confirmed" if sure else "; not confirmed"
        reason = f"{kept:.4g} requests/s kept the objectives, and {lost:.4g} lost them{confirmed}."
    return Highest(kept, kept, lost, sure, reason, list(steps))


def _votes(steps: Sequence[Step]) -> dict[float, tuple[float, float]]:
    """Steps that kept and that lost, by rate; of quick ones a part. A rate that is not decided after many steps has lost."""
    votes: dict[float, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    counts: dict[float, int] = defaultdict(int)
    for step in steps:
        kept, lost = votes[step.requests_per_s]
        weight = 0.5 if step.quick else 1.0
        votes[step.requests_per_s] = (kept + weight, lost) if step.kept else (kept, lost + weight)
        counts[step.requests_per_s] += 1
    return {
        rate: each if counts[rate] < MAX_STEPS_AT or _confirmed(each) else (0.0, float(CONFIRMED))
        for rate, each in votes.items()
    }


def _confirmed(votes: tuple[float, float]) -> bool:
    return abs(votes[0] - votes[1]) >= CONFIRMED


def _bracket(steps: Sequence[Step]) -> tuple[float | None, float | None]:
    """The highest rate that kept below all that lost, and the lowest that lost."""
    votes = _votes(steps)
    lost = min((rate for rate, each in votes.items() if each[1] > each[0]), default=None)
    kept = max(
        (rate for rate, each in votes.items() if each[0] > each[1] and (lost is None or rate < lost)), default=None
    )
    return kept, lost
