"""What a canary has shown stays in the routes, whatever becomes of its policy and of the controller."""

import pytest

from controlplane.fleet.models import PublishedSnapshot, SnapshotRevision, Tier
from controlplane.incidents.models import ChangeRecord
from controlplane.policy.act.outcomes import weights_after
from controlplane.policy.core.observation import Arm, CanaryCounts, Stratum
from controlplane.policy.models import PolicyRevision
from controlplane.policy.revisions.apply import apply
from inference.contract import snapshot
from inference.contract.plan import plans_of
from inference.contract.rules import NO_OVERLAY
from tests.support.policy.canary import CANARY, FAILING, SOUND
from tests.support.policy.world import World, fleet, revision


@pytest.fixture
def world() -> World:
    fleet({"old": "chat", "new": "chat"})
    revision(CANARY, name="try-new", kind="Canary")
    world = World()
    world.cluster.add("old", 1)
    world.cluster.add("new", 1)
    world.tick(1)
    return world


def end(world: World, candidate: Arm) -> None:
    began_ms = world.now_ms
    strata = (Stratum(candidate=candidate, baseline=SOUND),)
    world.canaries["try-new"] = CanaryCounts(since_ms=began_ms, until_ms=began_ms, strata=strata, age_ms=0)
    world.tick(1)


def in_force() -> snapshot.Snapshot:
    return snapshot.decode(PublishedSnapshot.objects.get().text.encode())


def routed(*, expired: bool = False) -> dict[str, int]:
    """What gateways do with a request, also once the overlay has expired."""
    document = in_force()
    overlay = NO_OVERLAY if expired else document.overlay
    plan = plans_of(document.models, document.pools, [], (), overlay)["chat"].plain
    return {route.pool: route.weight for route in plan.routes if route.weight}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("candidate", "winner"), [(FAILING, "old"), (SOUND, "new")])
def test_an_outcome_outlasts_controller_and_policy(world: World, candidate: Arm, winner: str) -> None:
    assert set(routed()) == {"old", "new"}
    assert set(routed(expired=True)) == {"old"}, "a candidate on trial has no share of its own"
    end(world, candidate)
    assert set(routed()) == {winner}
    assert set(routed(expired=True)) == {winner}, "the controller is away"
    assert SnapshotRevision.objects.latest("version").author == "Weir, canary try-new"
    ended = "rolled back" if winner == "old" else "promoted"
    told = ChangeRecord.objects.order_by("at").values_list("summary", flat=True)
    assert [":".join(each.split(":")[:2]) for each in told] == [
        "canary try-new: not begun → 50 %",
        f"canary try-new: 50 % → {ended}",
    ]
    revisions = SnapshotRevision.objects.count()
    world.new_engine()
    world.generation += 1
    world.tick(5)
    PolicyRevision.objects.update(state="retired")
    world.tick(5)
    assert in_force().overlay.canary == {}
    assert set(routed()) == {winner}
    assert SnapshotRevision.objects.count() == revisions, "it is written once"


@pytest.mark.django_db(transaction=True)
def test_a_next_canary_begins_from_the_outcome_of_the_last(world: World) -> None:
    end(world, FAILING)
    PolicyRevision.objects.update(state="retired")
    revision(CANARY.replace("[50]", "[25]"), name="try-new", kind="Canary", number=2)
    world.tick(1)
    assert routed() == {"old": 15_000, "new": 5_000}


ROUTES = """\
apiVersion: weir/v1
kind: Routing
metadata: {name: chat-routes}
spec:
  model: chat
  rules:
    - name: long  # prompts of whole books
      when: {min_prompt_tokens: 8001}
      routes: {old: 60, third: 7, new: 40}
    - name: batch
      when: {tiers: [batch]}
      priority: 9
    - name: rest
      routes:
        old: 100  # all of it
"""


def rules_in_force() -> dict[str, dict[str, int]]:
    """The weights of each rule that has any, as gateways have them."""
    rules = in_force().rules
    return {rule.name: {route.pool: route.weight for route in rule.routes} for rule in rules if rule.routes}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("candidate", "winner"), [(FAILING, "old"), (SOUND, "new")])
def test_an_outcome_is_written_where_its_weights_stand_in_rules(candidate: Arm, winner: str) -> None:
    fleet({"old": "chat", "new": "chat", "third": "chat"})
    Tier.objects.create(name="batch")
    assert apply({"routes.yaml": ROUTES}, label="git", who="ada").done
    revision(CANARY, name="try-new", kind="Canary")
    world = World()
    for pool in ("old", "new"):
        world.cluster.add(pool, 1)
    world.tick(1)
    assert rules_in_force() == {"chat-routes/long": {"old": 100, "third": 7}, "chat-routes/rest": {"old": 100}}
    end(world, candidate)
    [row] = PolicyRevision.objects.filter(name="chat-routes", state="active")
    assert rules_in_force() == {"chat-routes/long": {winner: 100, "third": 7}, "chat-routes/rest": {winner: 100}}
    assert "# prompts of whole books" in row.text and "# all of it" in row.text
    assert (row.author, row.source, row.label) == ("Weir, canary try-new", "canary", "git")
    [conflict] = apply({"routes.yaml": ROUTES}, label="git", who="ada").steps
    assert (conflict.action, conflict.note) == (
        "conflict",
        f"is the text of revision 1, whose weights follow a canary since revision {row.number}: put its weights into the file, or "
        "give --again",
    )
    assert apply({"routes.yaml": row.text}, label="git", who="ada").steps[0].action == "unchanged"


@pytest.mark.parametrize(
    ("winner", "entered", "after"),
    [
        ("old", {"old": 80, "new": 20}, {"old": 100, "new": 0}),
        ("new", {"old": 100, "new": 0}, {"old": 0, "new": 100}),
        ("new", {"old": 9_000, "new": 9_000}, {"old": 0, "new": 10_000}),
        ("new", {"old": 100}, {"old": 0, "new": 100}),
        ("old", {"old": 100, "third": 7}, {"old": 100, "third": 7}),
        ("old", {"old": 0, "new": 0}, {"old": 0, "new": 0}),
    ],
)
def test_the_winner_gets_what_both_had(winner: str, entered: dict[str, int], after: dict[str, int]) -> None:
    assert weights_after(winner, ("old", "new"), entered) == after
