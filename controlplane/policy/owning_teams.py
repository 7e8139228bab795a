"""Whose policies are: of the teams whose pools and models they touch, whatever team their text names."""

from controlplane.accounts.core.rule import EVERY_TEAM, Owned
from controlplane.fleet.files import approval
from controlplane.fleet.models import LLMModel, Pool, Variant
from controlplane.policy.core import document
from controlplane.policy.core.spec import Canary, Degradation, Policy, Routing, Scaling


def owner(policy: Policy) -> str:
    """The team that the policy's target belongs to in the fleet; empty where it has none, as the API tier has."""
    if isinstance(policy, Scaling):
        pools = Pool.objects.filter(name=policy.spec.pool)
        return pools.values_list("variant__model__team__name", flat=True).first() or ""
    return LLMModel.objects.filter(name=policy.spec.model).values_list("team__name", flat=True).first() or ""


def of_text(text: str) -> Owned:
    """Of a text that cannot be read nothing is known: it is every team's."""
    policy, _ = document.read_single(text, "text")
    return Owned.by(EVERY_TEAM) if policy is None else of_policy(policy)


def of_policy(policy: Policy) -> Owned:
    pools, variants = _others(policy)
    teams = {owner(policy), *([policy.metadata.team] if policy.metadata.team else [])}
    teams |= set(Pool.objects.filter(name__in=pools).values_list("variant__model__team__name", flat=True))
    teams |= set(Variant.objects.filter(name__in=variants).values_list("model__team__name", flat=True))
    return Owned.by(*teams)


def wanting(policy: Policy | None) -> tuple[str, ...]:
    """The teams that want another person's approval of it; of the API tier, and of what cannot be read, all that want any."""
    if policy is None or (isinstance(policy, Scaling) and policy.spec.pool is None):
        return approval.wanting([Owned.by(EVERY_TEAM)])
    return approval.wanting([of_policy(policy)])


def of_subject(pool: str = "", model: str = "") -> Owned:
    """Of what a pause or an override names."""
    row = Pool.objects.filter(name=pool).first() if pool else LLMModel.objects.filter(name=model).first()
    return row.owned() if row else Owned()


def _others(policy: Policy) -> tuple[set[str], set[str]]:
    """The pools, and the variants, to which the policy sends requests or from which it takes them."""
    match policy:
        case Routing(spec=routing):
            pools = {pool for rule in routing.rules for pool in (*rule.routes, *rule.fallbacks)}
            return pools | {pool for failover in routing.failover for pool in (*failover.pools, *failover.to)}, set()
        case Degradation(spec=ladder):
            return {step.pool for step in ladder.steps if step.pool}, {
                step.variant for step in ladder.steps if step.variant
            }
        case Canary(spec=canary):
            return {canary.baseline, canary.candidate}, set()
    return set(), set()
