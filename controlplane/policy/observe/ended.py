"""What gateways have counted, as the ledger is compared with it."""

from controlplane.policy.observe.core.traffic import Traffic
from controlplane.slo.core.gaps import Process


def ended(traffic: Traffic) -> dict[str, Process]:
    """The requests that have ended, but for cancelled ones, by process of a gateway."""
    return {
        f"{heard.signals.gateway} {heard.signals.started_ms}": Process(
            heard.signals.started_ms / 1e3,
            heard.at_ms / 1e3,
            {
                (model, name): tier.answered + tier.failed + tier.shed
                for model, tiers in heard.signals.models.items()
                for name, tier in tiers.items()
            },
            (heard.signals.at_ms - heard.at_ms) / 1e3,
        )
        for heard in traffic.gateways.values()
        if heard.signals is not None and heard.at_ms is not None
    }
