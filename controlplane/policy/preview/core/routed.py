"""Where recorded requests would have gone under routing rules, and how fast and how dear that is expected to be."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from controlplane.telemetry.core.replayed_rows import BINS_PER_DECADE, RuledHour, RuledRow
from inference.contract.plan import Plan, Plans
from inference.contract.rules import Route, RouteRule

NO_RULE = ""
"""The name under which requests are counted that no rule matches."""
MIN_ANSWERED = 30
"""Fewer answers of a pool say little of how fast it is."""
HOUR_S = 3_600
Histogram = Counter[int]


def bounds_of(rules: Iterable[RouteRule]) -> tuple[int, ...]:
    """The lengths of prompts, in tokens, at which any of the rules begins or ends to match."""
    edges = {rule.min_prompt_tokens for rule in rules} | {
        rule.max_prompt_tokens + 1 for rule in rules if rule.max_prompt_tokens
    }
    return tuple(sorted(edges - {0}))


@dataclass(frozen=True, slots=True)
class PoolKnown:
    """What is known of a pool. None is unknown."""

    variant: str
    region: str
    carries_rps: float | None  # its replicas of now
    usd_per_request: float | None  # at the load that its replicas carry
    at_least: bool = False  # they may carry more


class Speeds:
    """How long pools took to answer prompts of each length: histograms of E2E."""

    def __init__(self, rows: Iterable[RuledRow]) -> None:
        self._of: dict[tuple[str, int | None], Histogram] = defaultdict(Counter)
        for row in rows:
            if row.bin is not None:
                self._of[row.pool, row.band][row.bin] += row.requests
                self._of[row.pool, None][row.bin] += row.requests

    def histogram_of(self, pool: str, band: int) -> Histogram | None:
        """Of prompts of that length, or of all where those are too few; None where the pool has answered too few at all."""
        for key in ((pool, band), (pool, None)):
            histogram = self._of.get(key)
            if histogram is not None and histogram.total() >= MIN_ANSWERED:
                return histogram
        return None


@dataclass(slots=True)
class _Sum:
    requests: float = 0.0
    own: float = 0.0
    timed: float = 0.0
    histogram: dict[int, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, requests: float, own: float, speed: Histogram | None) -> None:
        self.requests += requests
        self.own += own
        if speed is not None and own:
            self.timed += own
            total = speed.total()
            for at, count in speed.items():
                self.histogram[at] += own * count / total

    def quantile_ms(self, quantile: float) -> float | None:
        """None where less than half of the requests would go where speeds are known."""
        if not self.timed or self.timed < 0.5 * self.own:
            return None
        return quantile_ms(self.histogram, quantile)


def quantile_ms(histogram: Mapping[int, float], quantile: float) -> float:
    """The middle of the bin in which the quantile lies."""
    left = quantile * sum(histogram.values())
    at = 0
    for at in sorted(histogram):
        left -= histogram[at]
        if left <= 0:
            break
    return float(10.0 ** ((at + 0.5) / BINS_PER_DECADE) / 1e6)


def routed(
    plans: Plans,
    rules: Sequence[RouteRule],
    bounds: Sequence[int],
    rows: Sequence[RuledRow],
    hours: Sequence[RuledHour],
    caps: Sequence[int],
    speeds: Speeds,
    pools: Mapping[str, PoolKnown],
) -> dict[str, Any]:
    """What each rule takes, what each pool gets, and the sums, as a document."""
    floors = (0, *bounds)
    whole, by_rule, by_pool = _Sum(), defaultdict[str, _Sum](_Sum), defaultdict[str, _Sum](_Sum)
    tiers: dict[str, Counter[str]] = defaultdict(Counter)
    shortened: Counter[str] = Counter()
    for row in rows:
        plan = _plan(plans, row, floors)
        tiers[plan.rule][row.tier] += row.requests
        if plan.max_output_tokens in caps:
            shortened[plan.rule] += row.longer[caps.index(plan.max_output_tokens)]
        for pool, share in shares(plan.routes):
            speed = speeds.histogram_of(pool, row.band)
            for each in (whole, by_rule[plan.rule], by_pool[pool]):
                each.add(share * row.requests, share * row.own, speed)
    busiest = _busiest_rps(plans, hours, floors)
    names = [*(rule.name for rule in rules), NO_RULE]
    capped = {rule.name for rule in rules if rule.max_output_tokens}
    return {
        "requests": round(whole.requests),
        "e2e_p50_ms": whole.quantile_ms(0.5),
        "e2e_p95_ms": whole.quantile_ms(0.95),
        "usd": _usd(by_pool, pools),
        "rules": [
            {
                "rule": name,
                "requests": round(by_rule[name].requests),
                "share": by_rule[name].requests / whole.requests if whole.requests else None,
                "tiers": dict(tiers[name].most_common()),
                "shortened": shortened[name] if name in capped else None,
                "e2e_p50_ms": by_rule[name].quantile_ms(0.5),
                "e2e_p95_ms": by_rule[name].quantile_ms(0.95),
            }
            for name in names
        ],
        "pools": [
            {
                "pool": name,
                "variant": pools[name].variant if name in pools else "",
                "region": pools[name].region if name in pools else "",
                "requests": round(total.own),
                "share": total.own / whole.own if whole.own else None,
                "e2e_p50_ms": total.quantile_ms(0.5),
                "e2e_p95_ms": total.quantile_ms(0.95),
                "usd": _usd({name: total}, pools),
                "busiest_hour_rps": busiest.get(name, 0.0),
                "carries_rps": pools[name].carries_rps if name in pools else None,
            }
            for name, total in sorted(by_pool.items(), key=lambda each: (-each[1].own, each[0]))
        ],
    }


def shares(routes: Sequence[Route]) -> list[tuple[str, float]]:
    total = sum(route.weight for route in routes)
    return [(route.pool, route.weight / total) for route in routes if route.weight > 0] if total > 0 else []


def moved(first: Plans, second: Plans, bounds: Sequence[int], rows: Iterable[RuledRow]) -> int:
    """How many of the requests that the cache did not answer would go to another pool."""
    floors, count = (0, *bounds), 0.0
    for row in rows:
        ours, theirs = (dict(shares(_plan(plans, row, floors).routes)) for plans in (first, second))
        count += row.own * sum(abs(ours.get(pool, 0.0) - theirs.get(pool, 0.0)) for pool in {*ours, *theirs}) / 2
    return round(count)


def _plan(plans: Plans, row: RuledRow | RuledHour, floors: Sequence[int]) -> Plan:
    return plans.only or plans.choose(row.tier, row.tenant, row.region, lambda: floors[row.band])


def _busiest_rps(plans: Plans, hours: Iterable[RuledHour], floors: Sequence[int]) -> dict[str, float]:
    """By pool, its requests/s in its busiest hour."""
    counts: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for row in hours:
        for pool, share in shares(_plan(plans, row, floors).routes):
            counts[pool][row.hour] += share * row.own
    return {pool: max(each.values()) / HOUR_S for pool, each in counts.items()}


def _usd(totals: Mapping[str, _Sum], pools: Mapping[str, PoolKnown]) -> float | None:
    """None where any pool that gets requests has no known cost."""
    usd = 0.0
    for name, total in totals.items():
        each = pools[name].usd_per_request if name in pools else None
        if each is None and total.own:
            return None
        usd += total.own * (each or 0.0)
    return usd
