"""A leader that holds the lease, where something bears a higher generation than its own."""

import io
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from controlplane.controller.loop import LEASE
from controlplane.core import lease
from controlplane.fleet.clusters import registry
from controlplane.fleet.models import Cluster, Observation, PublishedSnapshot
from controlplane.incidents.components.core.words import WORDS
from controlplane.policy.models import Action
from tests.support.policy.world import CLUSTER, POOL, World, revision, scaling, world_of

pytestmark = pytest.mark.django_db(transaction=True)
HOUR = timedelta(hours=1)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = world_of(1)
    monkeypatch.setattr(registry, "open_local", lambda _row: world.cluster)
    return world


def leader(*arguments: str) -> tuple[str, str]:
    """What the command says, and why it fails."""
    said, why = io.StringIO(), ""
    try:
        call_command("leader", *arguments, stdout=said)
    except CommandError as error:
        why = str(error)
    return said.getvalue(), why


def test_a_cluster_that_refuses_the_leader_is_one_fault_with_the_command(world: World) -> None:
    revision(scaling(min=2))
    world.cluster.generation = 50
    ticked = world.tick(3)
    assert [(fault.kind, fault.subject, fault.severity) for fault in ticked.faults] == [
        ("fence", "leading controller", "page")
    ]
    text = Observation.objects.get(component="policy:fence:leading controller").error
    assert f"holds the lease with generation 1, and a higher one has written to {CLUSTER}" in text
    assert "`manage.py leader --raise`" in text and "generation 50 leads" in text
    assert world.cluster.writes == [] and Action.objects.get().step == "planned"
    assert WORDS["policy_fence"].anchor == "leader-refused"


def test_a_snapshot_row_that_refuses_the_leader_is_in_the_same_fault_and_stops_nothing_else(world: World) -> None:
    PublishedSnapshot.objects.update(generation=50)
    revision(scaling(min=2))
    ladder = (
        "kind: Degradation\napiVersion: weir/v1\nmetadata: {name: ladder}\nspec:\n  model: chat\n  tiers: [premium]\n"
    )
    ladder += '  steps: [{name: shed, enter: "waiting > 3.0", exit: "waiting < 1.0", shed: {retry_after_s: 5}}]\n'
    revision(ladder, name="ladder", kind="Degradation")
    world.waiting = 50
    ticked = world.tick(5)
    assert [fault.text.partition(" Nothing")[0] for fault in ticked.faults if fault.kind == "fence"] == [
        "It holds the lease with generation 1, and a higher one has written to policy snapshot."
    ]
    assert world.cluster.counts(POOL)[:1] == [2]
    world.generation = 51
    ticked = world.tick(3)
    assert not [fault for fault in ticked.faults if fault.kind == "fence"]
    assert PublishedSnapshot.objects.get().generation == 51


def test_the_command_shows_all_places_and_raises_the_lease_above_them(world: World) -> None:
    first = lease.take(LEASE, "a", timezone.now(), HOUR)
    far = first + 1_000_000
    PublishedSnapshot.objects.update(generation=far - 5)
    world.cluster.generation = far
    said, why = leader()
    assert f"The lease has generation {first}, and a holds it until" in said
    assert f"the policy snapshot: generation {far - 5}: the leader is refused there" in said
    assert f"cluster {CLUSTER}, cluster in memory: generation {far}: the leader is refused there" in said
    assert "lower than that of 2 of 2" in said and why == "the leader is refused"
    said, why = leader("--raise")
    assert (f"The lease has generation {far + 1} now" in said, why) == (True, "")
    world.generation = lease.take(LEASE, "a", timezone.now(), HOUR)
    revision(scaling(min=2))
    ticked = world.tick(3)
    assert (world.generation, ticked.faults, world.cluster.counts(POOL)) == (far + 1, (), [2])
    with pytest.raises(lease.LeaseLostError):
        lease.fence(LEASE, "a", first)
    said, why = leader("--raise")
    assert ("nothing was changed" in said, why) == (True, "")


def test_the_command_names_what_no_leader_wrote_and_what_it_cannot_read(world: World) -> None:
    world.cluster.generation = 99_999_999_999
    said, why = leader("--raise")
    assert "No controller has led yet." in said
    assert why.startswith(f"cluster {CLUSTER}, cluster in memory bears 99999999999, which is above 2147482647")
    Cluster.objects.update(kind="kubernetes", kubeconfig="none")
    said, why = leader()
    assert f"cluster {CLUSTER} could not be read: " in said and "none" in said
    assert why == f"cluster {CLUSTER} could not be read: run this again later"
