"""Writes the outcome of a canary into the weights that owners entered: it lasts without the policy, and without the controller."""

from collections.abc import Mapping

from controlplane.fleet.models import Pool
from controlplane.policy.act.core.overlay import MAX_WEIGHT
from controlplane.policy.core.decision import Decision

ALL = 100
"""Percent. Steps are below it: whoever gets all has won."""


def write_outcomes(decision: Decision) -> list[str]:
    """The names of the canaries that have ended in this decision. Within the caller's transaction, which remembers that they did.

    A pool of another model keeps its weight, which is of that model's requests, and where such a pool has won no weight changes.
    """
    ended = []
    for model in decision.models.values():
        names = [change.name for change in model.transitions if change.kind == "canary"]
        if not names or ALL not in model.canary.values():
            continue
        rows = Pool.objects.select_for_update(of=("self",)).filter(
            variant__model__name=model.model, name__in=model.canary
        )
        entered = {row.name: row.weight for row in rows}
        for name, weight in weights_after(model.canary, entered).items():
            Pool.objects.filter(name=name).update(weight=weight)  # published by the caller, with its author
        ended += names
    return ended


def weights_after(percent: Mapping[str, int], entered: Mapping[str, int]) -> dict[str, int]:
    """The weights with which the winner gets what both pools got together. None change where it has none to get."""
    together = min(sum(entered.values()), MAX_WEIGHT)
    if not together or not any(percent[name] == ALL for name in entered):
        return {}
    return {name: together if percent[name] == ALL else 0 for name in entered}
