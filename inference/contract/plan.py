"""What is done with a request, by owners' rules and by the controller's overlay: decided between its parsing and its cache key.

All that does not depend on the request is worked out once per snapshot, so that a request costs one lookup where no rule looks at
it, and otherwise a few comparisons.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from inference.contract.rules import CacheMode, Degradation, Overlay, Route, RouteRule
from inference.contract.snapshot_parts import Model, Pool

_MAX_RETRY_S = 3600.0


class Step(NamedTuple):
    """All that a ladder does to the requests of a model and a tier. `pools` serve while one of them has a replica."""

    name: str
    header: tuple[bytes, bytes]
    pools: tuple[str, ...]
    max_output_tokens: int  # 0 is no limit
    partial: bool
    cached_only: bool
    shed: bool
    retry_after_s: float
    policy: str  # that it is a step of


class Plan(NamedTuple):
    """What is done with a request. `routes` and `fallbacks` are those that count for it."""

    routes: tuple[Route, ...]
    fallbacks: tuple[str, ...]
    cache: CacheMode
    rule: str = ""  # the owner's rule that it follows
    headers: tuple[tuple[bytes, bytes], ...] = ()  # that name the rule
    deadline_s: float = 0.0  # until the first token; 0 is none
    priority: int = 0  # 0 is the tier's
    max_output_tokens: int = 0
    step: Step | None = None
    cache_ttl_s: int = 0  # 0 is the model's


class _Choice(NamedTuple):
    """A plan, and which requests of its tier it is for. Empty matches all, and so does a bound of 0."""

    plan: Plan
    tenants: frozenset[str] = frozenset()
    regions: frozenset[str] = frozenset()
    min_prompt_tokens: int = 0
    max_prompt_tokens: int = 0


class Plans(NamedTuple):
    """The plans for a model's requests. `only` is the plan of all of them, where there is just one."""

    only: Plan | None
    by_tier: Mapping[str, tuple[_Choice, ...]]
    plain: Plan  # of a tier that no rule and no ladder names

    def choose(self, tier: str, tenant: str, region: str, prompt_tokens: Callable[[], int]) -> Plan:
        """The plan of the first rule that the request matches. `prompt_tokens` is called where a rule looks at the length."""
        tokens = -1
        for choice in self.by_tier.get(tier, ()):
            plan, tenants, regions, least, most = choice
            if (tenants and tenant not in tenants) or (regions and region not in regions):
                continue
            if least or most:
                if tokens < 0:
                    tokens = prompt_tokens()
                if tokens < least or (most and tokens > most):
                    continue
            return plan
        return self.plain


def plans_of(
    models: Iterable[Model],
    pools: Iterable[Pool],
    tiers: Sequence[str],
    rules: Iterable[RouteRule],
    overlay: Overlay,
    regions: frozenset[str] = frozenset(),
) -> dict[str, Plans]:
    """The plans of each model. Of an overlay that has expired, pass none. `regions` are those of a tenant; none is all. A plan has no
    routes where neither its owner nor the controller leads to a pool in a region where the model and the tenant may be served.
    """
    pools = list(pools)
    variants: dict[str, list[str]] = {}
    for pool in pools:
        variants.setdefault(pool.variant, []).append(pool.name)
    of_model: dict[str, list[RouteRule]] = {}
    for rule in rules:
        of_model.setdefault(rule.model, []).append(rule)
    steps: dict[str, list[Degradation]] = {}
    for step in overlay.degradation:
        steps.setdefault(step.model, []).append(step)
    plans = {}
    for model in models:
        its = _Parts(model, of_model.get(model.name, ()), overlay, steps.get(model.name, ()), variants)
        allowed = allowed_regions(model, regions)
        if allowed is not None:
            its = _within({pool.name for pool in pools if pool.region in allowed}, its)
        plans[model.name] = _plans(tiers, its)
    return plans


def allowed_regions(model: Model, tenants: frozenset[str]) -> frozenset[str] | None:
    """Where a model may serve a tenant whose requests may be served in `tenants` (none is all). None: everywhere."""
    if model.regions and tenants:
        return tenants.intersection(model.regions)
    return frozenset(model.regions) or tenants or None


class _Parts(NamedTuple):
    """What the plans of a model are made of."""

    model: Model
    rules: Sequence[RouteRule]
    overlay: Overlay
    steps: Sequence[Degradation]
    variants: Mapping[str, Sequence[str]]


def _within(pools: Collection[str], parts: _Parts) -> _Parts:
    """The parts as if these were all pools. What a failover cannot move to one of them stays where it is."""

    def routes(given: Sequence[Route]) -> tuple[Route, ...]:
        return tuple(route for route in given if route.pool in pools)

    def names(given: Sequence[str]) -> tuple[str, ...]:
        return tuple(name for name in given if name in pools)

    model, rules, overlay, steps, variants = parts
    return _Parts(
        replace(model, routes=routes(model.routes), fallbacks=names(model.fallbacks)),
        [replace(rule, routes=routes(rule.routes), fallbacks=names(rule.fallbacks)) for rule in rules],
        replace(
            overlay,
            routes={name: routes(given) for name, given in overlay.routes.items()},
            instead={name: others for name, given in overlay.instead.items() if (others := names(given))},
            canary={name: {at: share[at] for at in names(list(share))} for name, share in overlay.canary.items()},
        ),
        [step if step.pool in pools else replace(step, pool="") for step in steps],
        {variant: names(given) for variant, given in variants.items()},
    )


def _plans(tiers: Sequence[str], parts: _Parts) -> Plans:
    model, rules, overlay, steps, variants = parts
    routes = overlay.routes.get(model.name) or model.routes
    plain = _plan(routes, model.fallbacks, model, overlay)
    if not rules and not steps:
        return Plans(plain, {}, plain)
    by_tier = {}
    for tier in tiers:
        step = _step([step for step in steps if step.tier in ("", tier)], overlay, variants)
        choices = [
            _Choice(
                _ruled(rule, plain, model, overlay)._replace(step=step),
                frozenset(rule.tenants),
                frozenset(rule.regions),
                rule.min_prompt_tokens,
                rule.max_prompt_tokens,
            )
            for rule in rules
            if not rule.tiers or tier in rule.tiers
        ]
        by_tier[tier] = (*choices, _Choice(plain._replace(step=step)))
    return Plans(None, by_tier, plain)


def _plan(routes: Sequence[Route], fallbacks: Sequence[str], model: Model, overlay: Overlay) -> Plan:
    """The plan of these routes, after the canary and the failovers of the overlay."""
    canary = overlay.canary.get(model.name)
    if canary:
        routes = _split(routes, canary)
    spare: list[str] = []
    if overlay.instead:
        moved: dict[str, int] = {}
        for route in routes:
            first, *others = overlay.instead.get(route.pool, (route.pool,))
            moved[first] = moved.get(first, 0) + route.weight
            spare += others
        routes = [Route(pool, weight) for pool, weight in moved.items()]
        fallbacks = [pool for name in fallbacks for pool in overlay.instead.get(name, (name,))]
    return Plan(tuple(routes), tuple(dict.fromkeys((*spare, *fallbacks))), model.cache.mode)


def _ruled(rule: RouteRule, plain: Plan, model: Model, overlay: Overlay) -> Plan:
    plan = plain
    if rule.routes or rule.fallbacks:
        own = overlay.routes.get(model.name) or model.routes
        plan = _plan(rule.routes or own, rule.fallbacks or model.fallbacks, model, overlay)
    return plan._replace(
        cache=plan.cache if rule.cache == "as_model" else rule.cache,
        rule=rule.name,
        headers=((b"x-weir-policy-rule", _header(rule.name)),),
        deadline_s=max(0, rule.deadline_ms) / 1000,
        priority=max(0, rule.priority),
        max_output_tokens=max(0, rule.max_output_tokens),
        cache_ttl_s=rule.cache_ttl_s,
    )


def _split(routes: Sequence[Route], canary: Mapping[str, int]) -> list[Route]:
    """The routes, where the pools of a canary share what they have together by its percents."""
    together = sum(route.weight for route in routes if route.pool in canary)
    if together <= 0:
        return list(routes)
    shares = [Route(pool, together * percent) for pool, percent in canary.items() if percent > 0]
    rest = [Route(route.pool, route.weight * 100) for route in routes if route.pool not in canary]
    return rest + shares if shares else list(routes)


def _step(steps: Sequence[Degradation], overlay: Overlay, variants: Mapping[str, Sequence[str]]) -> Step | None:
    """What several steps do together: what a higher one names wins."""
    if not steps:
        return None
    pools: tuple[str, ...] = ()
    most, retry_after_s = 0, 1.0
    for step in (ordered := sorted(steps, key=lambda step: step.step)):
        if step.pool or step.variant:
            named = (step.pool,) if step.pool else tuple(variants.get(step.variant, ()))
            pools = tuple(pool for name in named for pool in overlay.instead.get(name, (name,)))
        most = step.max_output_tokens if step.max_output_tokens > 0 else most
        if step.cached_only or step.shed:
            retry_after_s = min(max(step.retry_after_s, 1.0), _MAX_RETRY_S)
    degradation = ordered[-1]
    name = degradation.name
    return Step(
        name,
        (b"x-weir-degraded", _header(name)),
        pools,
        most,
        any(step.partial for step in steps),
        any(step.cached_only for step in steps),
        any(step.shed for step in steps),
        retry_after_s,
        degradation.rule,
    )


def _header(text: str) -> bytes:
    """The text as a header's value, which has neither line ends nor anything but ASCII."""
    return "".join(sign if " " <= sign <= "~" else "?" for sign in text).encode()
