"""What a canary has shown holds, in whatever order controllers are killed, the database goes away, and people edit and retire it."""

import random
from contextlib import suppress

import pytest
from django.db import OperationalError

from controlplane.fleet import publish
from controlplane.fleet.models import Pool, PublishedSnapshot
from controlplane.policy import engine
from controlplane.policy.core.observation import Arm, CanaryCounts, Stratum
from controlplane.policy.core.record import decode_memory
from controlplane.policy.models import Memory, PolicyRevision
from controlplane.policy.write_records import DecisionTrack
from inference.contract import snapshot
from inference.contract.plan import plans_of
from inference.contract.rules import NO_OVERLAY
from tests.support.policy.canary import CANARY, FAILING, SOUND
from tests.support.policy.crashing import Killed, Points, killed_at
from tests.support.policy.world import World, fleet, revision
from tests.support.soak import sized

POINTS = {
    "write_record": DecisionTrack,
    "write_outcomes": engine,
    "write_memory": DecisionTrack,
    "publish": publish,
    "publish_overlay": publish,
}
"""What a tick writes about a canary."""
AWAY_MS = 400_000
"""Longer than an overlay lasts."""


class Away(Points):
    """The database fails from that point on, and with it the tick."""

    def at(self, name: str) -> None:
        with suppress(Killed):
            return super().at(name)
        raise OperationalError("the database is away")


class Trial:
    """A canary, what happens to it, and what gateways do meanwhile."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        fleet({"old": "chat", "new": "chat"})
        revision(CANARY, name="try-new", kind="Canary")
        self.world = World()
        for pool in ("old", "new"):
            self.world.cluster.add(pool, 1)
        self.world.tick(1)
        self.loser = ""

    def judge(self) -> None:
        """The ledger shows what the candidate is like."""
        rows = Memory.objects.filter(name=Memory.ACTIVE)
        standing = decode_memory(rows[0].document)[0].canaries.get("try-new") if rows else None
        if standing is not None:
            candidate, self.loser = self.random.choice([(FAILING, "new"), (SOUND, "old")])
            self.show(candidate, standing.entered[0][0])

    def show(self, candidate: Arm, began_ms: int) -> None:
        strata = (Stratum(candidate=candidate, baseline=SOUND),)
        self.world.canaries["try-new"] = CanaryCounts(began_ms, self.world.now_ms, strata, age_ms=0)

    def tick(self) -> None:
        self.world.tick(1)

    def be_killed(self) -> None:
        with suppress(Killed), killed_at(Points(self.random.randint(1, 2 * len(POINTS))), POINTS):
            self.world.tick(1)
        self.world.generation += 1
        self.world.new_engine()

    def lose_the_database(self) -> None:
        with suppress(OperationalError), killed_at(Away(self.random.randint(1, 2 * len(POINTS))), POINTS):
            self.world.tick(1)

    def be_away(self) -> None:
        """No controller runs for longer than an overlay lasts."""
        self.world.now_ms += AWAY_MS

    def describe(self) -> None:
        number = PolicyRevision.objects.count() + 1
        if PolicyRevision.objects.filter(state="active").update(state="retired"):
            text = CANARY.replace("name: try-new", f"name: try-new\n      description: the {number}th")
            revision(text, name="try-new", kind="Canary", number=number)

    def retire(self) -> None:
        PolicyRevision.objects.update(state="retired")

    def routed(self) -> set[str]:
        """Where gateways send requests now."""
        document = snapshot.decode(PublishedSnapshot.objects.get().text.encode())
        overlay = document.overlay if document.overlay.expires_ms > self.world.now_ms else NO_OVERLAY
        plan = plans_of(document.models, document.pools, [], (), overlay)["chat"].plain
        return {route.pool for route in plan.routes if route.weight}

    @property
    def has_ended(self) -> bool:
        """What the candidate is like is written down."""
        weights = dict(Pool.objects.values_list("name", "weight"))
        return bool(self.loser) and not weights[self.loser] and bool(sum(weights.values()))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("seed", range(40, sized(46, soak=1_040)))
def test_an_outcome_holds_in_any_order(seed: int) -> None:
    trial = Trial(seed)
    acts = [trial.tick, trial.be_killed, trial.lose_the_database, trial.be_away, trial.describe]
    before, after = trial.random.choices(acts, k=4), trial.random.choices([*acts, trial.retire], k=8)
    for act in before:
        act()
        assert trial.routed() in ({"old", "new"}, {"old"}), "on trial, or without a controller"
    trial.judge()
    trial.random.choice([trial.tick, trial.be_killed, trial.lose_the_database])()
    trial.tick()
    [winner] = {"old", "new"} - {trial.loser}
    assert trial.has_ended and trial.routed() == {winner}
    for act in after:
        act()
        assert trial.routed() == {winner}, act.__name__
