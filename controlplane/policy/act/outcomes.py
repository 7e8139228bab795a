"""Writes what becomes of a canary into what owners entered: it lasts without the policy, and without the controller.

From its begin on a candidate has no weight of its own, so that its share ends where nobody renews it. Weights are those of the pools, and
those of the rules of the model's routing policy that name one of the two.
"""

from collections.abc import Callable, Collection, Mapping

from django.db import transaction

from controlplane.fleet import publish
from controlplane.fleet.changes import WEIR
from controlplane.fleet.files import revisions
from controlplane.fleet.files.revisions import Reason
from controlplane.fleet.models import Pool
from controlplane.policy.act.core.overlay import MAX_WEIGHT
from controlplane.policy.core.decision import Decision
from controlplane.policy.core.spec import Routing
from controlplane.policy.models import PolicyRevision
from controlplane.policy.revisions.core.route_text import with_routes
from controlplane.policy.revisions.read import read_stored
from controlplane.policy.revisions.steps import rewrite

ALL = 100
"""Percent. Steps are below it: whoever gets all has won."""


def write_outcomes(decision: Decision) -> bool:
    """Whether a canary has begun, moved on or ended in this decision. Within the caller's transaction, which remembers that it did.

    A pool of another model keeps its weight, which is of that model's requests, and where such a pool has won no weight of pools changes.
    """
    changed = False
    for model in decision.models.values():
        names = [change.name for change in model.transitions if change.kind == "canary"]
        if not names:
            continue
        changed, author = True, f"{WEIR}canary {', '.join(names)}"
        transaction.on_commit(_published_by(author), robust=True)
        baseline = next(iter(model.canary))
        winner = next((pool for pool, percent in model.canary.items() if percent == ALL), baseline)
        rows = Pool.objects.select_for_update(of=("self",)).filter(
            variant__model__name=model.model, name__in=model.canary
        )
        entered = {row.name: row.weight for row in rows}
        if winner in entered:
            weights = weights_after(winner, entered, entered)
            with revisions.because(Reason(author=author)):
                for row in rows:
                    row.weight = weights.get(row.name, row.weight)
                    row.save(update_fields=["weight"])
        why = next(change.reason for change in model.transitions if change.kind == "canary")
        _write_rules(model.model, winner, model.canary, author, why)
    return changed


def _published_by(author: str) -> Callable[[], None]:
    """Publishes before the rows' own signals do. Where that fails, the outcome is written, and published with what comes next."""

    def published() -> None:
        publish.publish(author=author)

    return published


def _write_rules(model: str, winner: str, pools: Collection[str], author: str, why: str) -> None:
    for row in PolicyRevision.objects.filter(kind=PolicyRevision.Kind.ROUTING, state=PolicyRevision.State.ACTIVE):
        read = read_stored(row)
        if read is None or not isinstance(read.policy, Routing) or read.policy.spec.model != model:
            continue
        every = {number: rule.routes for number, rule in enumerate(read.policy.spec.rules)}
        after = {number: weights_after(winner, pools, routes) for number, routes in every.items()}
        if changed := {number: routes for number, routes in after.items() if routes != every[number]}:
            rewrite(row, with_routes(read, changed), author, why)


def weights_after(winner: str, pools: Collection[str], weights: Mapping[str, int]) -> dict[str, int]:
    """The weights of which the winner has what the pools of the canary have together, and the other one none."""
    together = min(sum(weights.get(pool, 0) for pool in pools), MAX_WEIGHT)
    if not together:
        return dict(weights)
    return {pool: 0 if pool in pools else weight for pool, weight in weights.items()} | {winner: together}
