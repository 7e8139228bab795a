"""Finds what sets some requests (the slow ones, or a region of a chart) apart from the rest, and how much each value accounts for.

The difference is D = mean E2E of the chosen - mean E2E of the rest. By stage it splits exactly, because a row's stages add up to
its E2E. A dimension with values v accounts for the part of D that its composition alone explains (Kitagawa 1955, known from Oaxaca
and Blinder): with p(v) the share of v among the chosen, q(v) among the rest, m(v) the mean E2E of all requests with v and m that
of all requests,

    accounts_for(v) = (p(v) - q(v)) * (m(v) - m) / D        summed over v: of the dimension

It is 1 where the dimension alone decides which requests are chosen, and 0 where it is unrelated. Values with few requests prove
little, and a dimension with as many values as requests would explain everything: so m(v) is computed as if `PRIOR` more average
requests had the value, and a value counts only where its share differs by more than chance (see `SIGNIFICANT`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt

PRIOR = 20  # requests
SIGNIFICANT = 3.0  # standard errors between the two shares: 1 in 370 by chance, for the dozens of values compared
MIN_REQUESTS = 5  # among the chosen: fewer are no pattern


@dataclass(frozen=True, slots=True)
class Side:
    """Requests on one side, chosen or rest: their number, and their total time by stage (with `unattributed`)."""

    requests: int = 0
    stage_ns: Mapping[str, int] = field(default_factory=dict)

    @property
    def e2e_ns(self) -> int:
        return sum(self.stage_ns.values())

    def mean_ns(self, stage: str) -> float:
        return self.stage_ns.get(stage, 0) / self.requests if self.requests else 0.0

    @property
    def mean_e2e_ns(self) -> float:
        return self.e2e_ns / self.requests if self.requests else 0.0


@dataclass(frozen=True, slots=True)
class Split:
    """One value of one dimension (or everything) on both sides, with a few trace ids of the chosen."""

    chosen: Side
    rest: Side
    exemplars: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StageDifference:
    stage: str
    ns: float  # mean of the chosen - mean of the rest; over all stages these sum to the difference
    share: float  # of the difference; negative where the chosen spent less


@dataclass(frozen=True, slots=True)
class Account:
    """How much of the difference a dimension's composition accounts for, 0 to 1 or a little beyond."""

    dimension: str
    share: float


@dataclass(frozen=True, slots=True)
class Finding:
    """A value that the chosen requests have more often than the rest, and that is slow."""

    dimension: str
    value: str
    accounts_for: float  # share of the difference
    chosen: int
    rest: int
    chosen_share: float  # of the chosen that have it
    rest_share: float  # of the rest that have it
    lift: float | None  # how many times likelier it is among the chosen; None where no other request has it
    stage: str  # the stage in which chosen requests with it exceed the rest the most
    stage_ns: float  # how much more, per request
    exemplars: tuple[str, ...]
    same_as: tuple[tuple[str, str], ...] = ()  # other dimensions' values that are exactly these requests


@dataclass(frozen=True, slots=True)
class Explanation:
    chosen: int
    rest: int
    chosen_mean_ns: float
    rest_mean_ns: float
    stages: list[StageDifference]  # the greatest first
    dimensions: list[Account]
    findings: list[Finding]
    one_in: int = 1  # the requests are a sample of one in so many

    @property
    def difference_ns(self) -> float:
        return self.chosen_mean_ns - self.rest_mean_ns


def explain(total: Split, dimensions: Mapping[str, Mapping[str, Split]], limit: int = 10) -> Explanation:
    """The dimensions and values that set the chosen apart, those that account for most first; at most `limit` values.

    `dimensions[dimension][value]` partitions `total`. If one side has no requests, or there is no difference, the lists are empty.
    """
    chosen, rest = total.chosen, total.rest
    difference = chosen.mean_e2e_ns - rest.mean_e2e_ns
    if not chosen.requests or not rest.requests or not difference:
        return Explanation(chosen.requests, rest.requests, chosen.mean_e2e_ns, rest.mean_e2e_ns, [], [], [])
    accounts = []
    findings = []
    for dimension, values in dimensions.items():
        shares = {
            value: _accounts_for(split, total, difference)
            for value, split in values.items()
            if _significant(split, total)
        }
        accounts.append(Account(dimension, sum(shares.values())))
        findings += [_finding(dimension, value, share, values[value], total) for value, share in shares.items()]
    return Explanation(
        chosen.requests,
        rest.requests,
        chosen.mean_e2e_ns,
        rest.mean_e2e_ns,
        stages=_stages(chosen, rest, difference),
        dimensions=sorted((a for a in accounts if a.share > 0), key=lambda a: (-a.share, a.dimension)),
        findings=_ranked([f for f in findings if _sets_apart(f)], dimensions)[:limit],
    )


def _stages(chosen: Side, rest: Side, difference: float) -> list[StageDifference]:
    names = sorted({*chosen.stage_ns, *rest.stage_ns})
    ns = {stage: chosen.mean_ns(stage) - rest.mean_ns(stage) for stage in names}
    ranked = sorted(ns, key=lambda stage: (-ns[stage] / difference, stage))
    return [StageDifference(stage, ns[stage], ns[stage] / difference) for stage in ranked]


def _accounts_for(split: Split, total: Split, difference: float) -> float:
    everyone = total.chosen.requests + total.rest.requests
    mean = (total.chosen.e2e_ns + total.rest.e2e_ns) / everyone
    having = split.chosen.requests + split.rest.requests
    drawn = (split.chosen.e2e_ns + split.rest.e2e_ns + PRIOR * mean) / (having + PRIOR)
    more_often = split.chosen.requests / total.chosen.requests - split.rest.requests / total.rest.requests
    return more_often * (drawn - mean) / difference


def _significant(split: Split, total: Split) -> bool:
    """Whether the value's share differs between the sides by more than chance (two proportions, pooled)."""
    n, m = total.chosen.requests, total.rest.requests
    pooled = (split.chosen.requests + split.rest.requests) / (n + m)
    error = sqrt(pooled * (1 - pooled) * (1 / n + 1 / m))
    return error > 0 and abs(split.chosen.requests / n - split.rest.requests / m) >= SIGNIFICANT * error


def _finding(dimension: str, value: str, share: float, split: Split, total: Split) -> Finding:
    chosen_share = split.chosen.requests / total.chosen.requests
    rest_share = split.rest.requests / total.rest.requests
    stages = _stages(split.chosen, total.rest, 1.0)
    return Finding(
        dimension,
        value,
        accounts_for=share,
        chosen=split.chosen.requests,
        rest=split.rest.requests,
        chosen_share=chosen_share,
        rest_share=rest_share,
        lift=chosen_share / rest_share if rest_share else None,
        stage=stages[0].stage if stages else "",
        stage_ns=stages[0].ns if stages else 0.0,
        exemplars=split.exemplars,
    )


def _sets_apart(finding: Finding) -> bool:
    """Leaves out values that the chosen have less often: they account for a part too, but give nothing to look at."""
    return finding.chosen >= MIN_REQUESTS and finding.chosen_share > finding.rest_share and finding.accounts_for > 0


def _ranked(findings: Sequence[Finding], dimensions: Mapping[str, Mapping[str, Split]]) -> list[Finding]:
    """The findings by what they account for. Values of exactly the same requests (a pool and its only replica) are one finding.

    It names the dimension that is first in `dimensions`: callers order them from the general to the particular.
    """
    order = {dimension: position for position, dimension in enumerate(dimensions)}
    same: dict[object, list[Finding]] = {}
    for finding in sorted(findings, key=lambda f: (order[f.dimension], f.value)):
        split = dimensions[finding.dimension][finding.value]
        key = (
            finding.chosen,
            finding.rest,
            *(tuple(sorted(side.stage_ns.items())) for side in (split.chosen, split.rest)),
        )
        same.setdefault(key, []).append(finding)
    distinct = [_with_same(first, others) for first, *others in same.values()]
    return sorted(distinct, key=lambda f: (-f.accounts_for, order[f.dimension], f.value))


def _with_same(finding: Finding, others: Sequence[Finding]) -> Finding:
    return replace(finding, same_as=tuple((other.dimension, other.value) for other in others)) if others else finding


def nothing(explanation: Explanation) -> str | None:
    """Why an explanation has no findings, in a sentence; None if it has some."""
    if explanation.findings:
        return None
    if not explanation.chosen + explanation.rest:
        return "No answered request of this range is stored."
    if not explanation.chosen:
        return "None of the requests is among the chosen."
    if not explanation.rest:
        return "All requests are among the chosen: there is nothing to compare them with."
    if not explanation.difference_ns:
        return "The chosen took as long as the rest."
    if explanation.chosen < MIN_REQUESTS:
        return f"Too few for a pattern: fewer than {MIN_REQUESTS} requests are among the chosen."
    return "By no dimension do they differ from the rest by more than chance."
