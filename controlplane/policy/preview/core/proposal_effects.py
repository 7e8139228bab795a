"""What another document would have changed for recorded requests: refusals, answers of the cache, pools, cost and attainment."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from controlplane.policy.preview.core.gateways import Decided, Gateways
from controlplane.policy.preview.core.routed import MIN_ANSWERED
from controlplane.telemetry.core.query_types import FROM_CACHE
from controlplane.telemetry.core.replayed_rows import RecordedRequest
from controlplane.telemetry.ledger.row import prompt_bucket
from inference.contract.plan import Plan
from inference.contract.snapshot import Model, Snapshot
from inference.contract.snapshot_parts import SemanticRule

SOME = 1e-9
"""Less is the rounding of shares."""
REPLAYED: Mapping[str, frozenset[str]] = {
    "models": frozenset(("routes", "fallbacks", "regions", "max_prompt_tokens", "prompt_version", "cache")),
    "pools": frozenset(("variant", "region", "model_name", "model_version", "endpoints", "prices")),
    "tiers": frozenset(("requests_per_minute", "tokens_per_minute", "max_in_flight")),
    "tenants": frozenset(("tier", "regions", "cache_purges")),
    "guards": frozenset(),
    "issuers": frozenset(),
}
"""Fields of the document's parts whose effect is counted here."""
REPLAYED_TIMEOUTS = frozenset(("tokenizer_ms", "queue_ms", "model_ms"))


class Judged(NamedTuple):
    """An objective, and how its requests are judged: `cut` and `place` as `CountPlan` has them."""

    slug: str
    target: float
    scope: Mapping[str, str]
    cut: int
    place: int
    of_availability: bool

    def good(self, request: RecordedRequest) -> bool | None:
        """None where it is not counted."""
        code = request.codes[self.cut]
        if code >> 1 > self.place:
            return False
        return None if code < 0 or code & 1 else True


class _Rates:
    """How often the requests that pools served were good, by objective and length of the prompt."""

    def __init__(self, requests: Iterable[RecordedRequest], objectives: Sequence[Judged]) -> None:
        self._of: dict[tuple[str, int, str | None], Counter[bool]] = defaultdict(Counter)
        for request in requests:
            if request.cache in FROM_CACHE or request.limited:
                continue
            for at, objective in enumerate(objectives):
                if (good := objective.good(request)) is not None:
                    for bucket in (prompt_bucket(request.prompt_tokens), None):
                        self._of[request.pool, at, bucket][good] += 1

    def rate(self, pool: str, bucket: str, objective: int) -> float | None:
        """None where the pool has too few such requests to say."""
        for key in ((pool, objective, bucket), (pool, objective, None)):
            counted = self._of.get(key)
            if counted is not None and counted.total() >= MIN_ANSWERED:
                return counted[True] / counted.total()
        return None


class _Fate(NamedTuple):
    """What would have become of a request otherwise. `stays`, `unknown` and the shares of `goes` are 1 together, unless it is `refused`."""

    stays: float = 1.0
    goes: Mapping[str, float] = {}
    unknown: float = 0.0
    refused: Decided | None = None


class _Attained:
    def __init__(self) -> None:
        self.good = self.total = self.unknown = 0.0

    def add(self, share: float, good: float | None) -> None:
        if good is None:
            self.unknown += share
        else:
            self.good += share * good
            self.total += share

    @property
    def least(self) -> float | None:
        return self.bounds[0] if self.bounds else None

    @property
    def bounds(self) -> list[float] | None:
        """The least and the most that it may be; None where nothing is known."""
        if self.total < SOME:
            return None
        whole = self.total + self.unknown
        return [self.good / whole, (self.good + self.unknown) / whole]


def compared(
    before: Gateways, after: Gateways, requests: Sequence[RecordedRequest], objectives: Sequence[Judged]
) -> dict[str, Any]:
    """`requests` by time. Both sides are decided, so that they are judged alike; objectives are attained `before` as it was recorded."""
    rates, moved, passes = _Rates(requests, objectives), 0.0, 0
    refused = Counter[str](), Counter[str]()
    pools: tuple[dict[str, float], dict[str, float]] = defaultdict(float), defaultdict(float)
    cache = dict.fromkeys(("answered", "lost", "unknown"), 0.0)
    cost = {"before": 0.0, "after": 0.0, "requests": 0, "unknown": 0}
    attained = [(_Attained(), _Attained()) for _ in objectives]
    touched: set[int] = set()
    for request in requests:
        tier = _tier_after(before, after, request)
        was, will = before.decide(request, request.tier), after.decide(request, tier)
        for counted, decided in zip(refused, (was, will), strict=True):
            if decided.refused:
                counted[decided.refused] += 1
        if request.limited:
            passes += bool(was.refused) and not will.refused
            continue
        own, fate = request.cache not in FROM_CACHE, _fate(request, before, after, was, will)
        if own:
            moved += sum(fate.goes.values())
        elif not was.refused and fate.refused is None:
            for name, share in (("answered", 1.0), ("lost", sum(fate.goes.values())), ("unknown", fate.unknown)):
                cache[name] += share
        sides = (was.to if own else {}, will.to if own else fate.goes)
        for by_pool, to in zip(pools, sides, strict=True):
            for pool, share in to.items():
                by_pool[pool] += share
        if request.status == "ok" and any(sides):
            usd = before.usd(request, sides[0]), after.usd(request, sides[1])
            if usd[0] is None or usd[1] is None:
                cost["unknown"] += 1
            else:
                cost["before"], cost["after"] = cost["before"] + usd[0], cost["after"] + usd[1]
                cost["requests"] += 1
        for at, objective in enumerate(objectives):
            good = objective.good(request)
            if good is None:
                continue
            judged_before, judged_after = attained[at]
            if in_scope := _in_scope(objective.scope, request, request.tier, request.pool, before):
                judged_before.add(1.0, good)
            concerns = _judge(
                judged_after, objective, request, tier, fate, good, after, partial(rates.rate, objective=at)
            )
            if (concerns or in_scope) and (fate.stays < 1.0 - SOME or tier != request.tier):
                touched.add(at)
    return {
        "moved": round(moved),
        "pools": [
            {"pool": name, "variant": _variant(name, after, before), "before": pools[0][name], "after": pools[1][name]}
            for name in sorted({*pools[0], *pools[1]})
        ],
        "refused": [
            {"why": why, "before": refused[0][why], "after": refused[1][why]} for why in sorted({*refused[0], *refused[1]})
        ],
        "passes": passes,
        "cache": {name: round(count) for name, count in cache.items()},
        "cost": cost,
        "objectives": [
            {
                "slug": objective.slug,
                "target": objective.target,
                "before": attained[at][0].least,
                "after": attained[at][1].bounds,
                "unknown": round(attained[at][1].unknown),
            }
            for at, objective in enumerate(objectives)
            if at in touched
        ],
        "unchanged_objectives": len(objectives) - len(touched),
    }  # fmt: skip


def _tier_after(before: Gateways, after: Gateways, request: RecordedRequest) -> str:
    """The tenant's new tier, unless a token named the request's."""
    was, will = before.tenants.get(request.tenant), after.tenants.get(request.tenant)
    return will.tier if was and will and request.tier == was.tier else request.tier


def _fate(request: RecordedRequest, before: Gateways, after: Gateways, was: Decided, will: Decided) -> _Fate:
    if was.refused or will.refused:
        return _Fate() if was.refused else _Fate(0.0, refused=will)
    gains = {pool: more for pool, share in will.to.items() if (more := share - was.to.get(pool, 0.0)) > SOME}
    moves = sum(gains.values())
    if request.cache not in FROM_CACHE:
        return _Fate(1.0 - moves, gains)
    old, new = ((side.models[request.model], decided.plan) for side, decided in ((before, was), (after, will)))
    rule, plan = new[0].cache, new[1]
    means_off = {"coalesced": not rule.coalesce, "semantic": rule.semantic.mode != "on"}
    if _ttl_s(*new) == 0 or (plan and plan.cache == "never") or means_off.get(request.cache):
        return _Fate(0.0, will.to)
    same = _kept_as(request, before, *old) == _kept_as(request, after, *new)
    return _Fate(1.0 - moves, unknown=moves) if same else _Fate(0.0, unknown=1.0)


def _ttl_s(model: Model, plan: Plan | None) -> int:
    return (plan and plan.cache_ttl_s) or model.cache.ttl_s


def _kept_as(request: RecordedRequest, side: Gateways, model: Model, plan: Plan | None) -> tuple[object, ...]:
    """What decides whether its stored answer is met, but for the request itself: all that is in its key, and how long it is kept."""
    rule, pool = model.cache, side.pools.get(request.pool)
    return (
        *(plan and plan.cache, _ttl_s(model, plan), replace(rule, coalesce=True, semantic=SemanticRule())),
        *(model.prompt_version, model.max_output_tokens, side.regions_of(request)),
        *((pool.variant, pool.model_name, pool.model_version) if pool else ()),
    )


def _in_scope(scope: Mapping[str, str], request: RecordedRequest, tier: str, pool: str, side: Gateways) -> bool:
    if not scope:
        return True
    served = side.pools.get(pool)
    values = {
        "model": request.model, "tier": tier, "tenant": request.tenant, "prompt_bucket": prompt_bucket(request.prompt_tokens),
        "pool": pool, "variant": served.variant if served else "", "region": served.region if served else "",
    }  # fmt: skip
    return all(values.get(name) == value for name, value in scope.items())


def _judge(
    attained: _Attained,
    objective: Judged,
    request: RecordedRequest,
    tier: str,
    fate: _Fate,
    good: bool,
    after: Gateways,
    rate: Callable[[str, str], float | None],
) -> bool:
    """Add what the request would have been. Returns whether the objective would be about it."""
    concerns = _in_scope(objective.scope, request, tier, request.pool, after)
    if concerns and fate.refused is None:
        attained.add(fate.stays, good)
        attained.add(fate.unknown, None)
    elif concerns and objective.of_availability and fate.refused and fate.refused.ended:
        attained.add(1.0, 0.0)
    for pool, share in fate.goes.items():
        if _in_scope(objective.scope, request, tier, pool, after):
            attained.add(share, rate(pool, prompt_bucket(request.prompt_tokens)))
            concerns = True
    return concerns


def _variant(pool: str, *sides: Gateways) -> str:
    return next((side.pools[pool].variant for side in sides if pool in side.pools), "")


def not_replayed(before: Snapshot, after: Snapshot) -> list[str]:
    """What differs and has effects that no recorded request shows: `model chat: hedge_ms, tokenizer`."""
    said = []
    for kind, known in REPLAYED.items():
        old, new = ({each.name: each for each in getattr(document, kind)} for document in (before, after))
        for name in sorted({*old, *new}):
            if name in old and name in new:
                fields = _differing(old[name], new[name], known)
                if kind == "models" and old[name].cache.semantic != new[name].cache.semantic:
                    fields.append("answers of similar requests")
                said += [f"{kind[:-1]} {name}: {', '.join(fields)}"] if fields else []
            elif not known:
                said.append(f"{kind[:-1]} {name}")
    if fields := _differing(before.timeouts, after.timeouts, REPLAYED_TIMEOUTS):
        said.append(f"timeouts: {', '.join(fields)}")
    return said


def _differing(old: Any, new: Any, known: Collection[str]) -> list[str]:
    fields = old.__struct_fields__
    return [name for name in fields if name not in known and getattr(old, name) != getattr(new, name)]
