"""Owners' routing policies as the rules that gateways obey."""

from controlplane.policy.core.spec import Routing
from inference.contract.rules import Route, RouteRule


def route_rules(policy: Routing) -> tuple[RouteRule, ...]:
    """In the order in which they are tried. Clients and the ledger see `POLICY/RULE`. What is left out is 0 or empty."""
    return tuple(
        RouteRule(
            name=f"{policy.metadata.name}/{rule.name}",
            model=policy.spec.model,
            tiers=rule.when.tiers,
            regions=rule.when.regions,
            tenants=rule.when.tenants,
            min_prompt_tokens=rule.when.min_prompt_tokens or 0,
            max_prompt_tokens=rule.when.max_prompt_tokens or 0,
            routes=tuple(Route(pool, weight) for pool, weight in rule.routes.items() if weight),
            fallbacks=rule.fallbacks,
            cache=rule.cache,
            cache_ttl_s=rule.cache_ttl_s or 0,
            deadline_ms=rule.deadline_ms or 0,
            priority=rule.priority or 0,
            max_output_tokens=rule.max_output_tokens or 0,
        )
        for rule in policy.spec.rules
    )
