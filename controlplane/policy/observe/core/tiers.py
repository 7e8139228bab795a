"""What gateways say of a tier."""

from controlplane.policy.observe.core.traffic import TierRates, Traffic


def tier_traffic(traffic: Traffic, model: str, tier: str) -> tuple[float | None, float | None]:
    """Requests/s of a tier within LONG_S, and the share of them that was shed."""
    none = TierRates()
    rounds = [each.tiers.get((model, tier), none) for each in traffic.rounds]
    arrived = sum(rates.arrived for rates in rounds)
    shed = sum(rates.shed for rates in rounds) / arrived if arrived > 0 else None
    return (arrived / len(rounds) if rounds else None), shed
