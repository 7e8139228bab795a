"""What becomes of custom resources: what can be followed is followed, and each of the others says why not and changes nothing."""

from dataclasses import replace

import pytest

from controlplane.accounts import rights
from controlplane.core.documents.plan import managed_by
from controlplane.core.documents.reading import read
from controlplane.core.documents.writing import write_yaml
from controlplane.fleet.changes import WEIR as CHANGED_BY
from controlplane.fleet.files import proposals
from controlplane.fleet.files.apply import apply as apply_fleet
from controlplane.fleet.files.export import export
from controlplane.fleet.files.revisions import Reason, because
from controlplane.fleet.models import FleetProposal, FleetRevision, LLMModel, Pool, Team, Tier
from controlplane.policy.models import PolicyRevision
from controlplane.policy.revisions import steps
from controlplane.slo.models import Maintenance
from controlplane.sources.core.resources import Outcome
from controlplane.sources.reconcile import APPLIED, Declared, Reconciler
from tests.support.entered_fleet import emptied, entered_fleet
from tests.support.policy.people_and_texts import scaling

pytestmark = pytest.mark.django_db(transaction=True)
WEIR = Reconciler("weir", managed_by("cluster: weir"), lambda: None)


def declared(*texts: str) -> list[Declared]:
    documents = [(read(text)[0][0], text) for text in texts]
    return [
        Declared(it.kind, it.name, f"{it.kind.lower()}/{it.name.replace('/', '-')}", text) for it, text in documents
    ]


def document(kind: str, name: str, /, **spec: object) -> str:
    return write_yaml({"apiVersion": "weir/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})


def team(name: str, **spec: object) -> str:
    return document("Team", name, **spec)


def model(name: str, **spec: object) -> str:
    return document("Model", name, **spec)


def reasons(outcomes: dict[str, Outcome]) -> dict[str, str]:
    return {source: each.reason for source, each in outcomes.items()}


def test_objects_that_name_each_other_come_into_force_in_any_order_and_go_together() -> None:
    entered_fleet()
    texts = export()
    assert any("fallbacks:" in text for text in texts.values())
    emptied()
    all_of = declared(*reversed(texts.values()))
    assert set(WEIR.follow(all_of).values()) == {APPLIED}
    assert export() == texts
    assert WEIR.follow(all_of) == dict.fromkeys((each.source for each in all_of), APPLIED)
    assert set(WEIR.retire(all_of).values()) == {APPLIED}
    assert export() == {}


def test_one_that_is_wrong_names_the_field_and_the_others_come_into_force() -> None:
    outcomes = WEIR.follow(
        declared(team("serving"), model("chat", team="serving", cache_ttl_s=-5), model("lost", team="nobody"))
    )
    assert reasons(outcomes) == {"team/serving": "Applied", "model/chat": "Invalid", "model/lost": "Invalid"}
    assert outcomes["model/chat"].message.startswith("spec.cache_ttl_s: cache_ttl_s=-5: ")
    assert outcomes["model/lost"].message.startswith("spec.team: team='nobody' is no team")
    assert not LLMModel.objects.exists()
    assert FleetRevision.objects.get().author == "cluster: weir/team/serving"


def test_what_is_used_stays_until_it_is_used_no_more() -> None:
    both = declared(document("Tier", "gold", priority=1), document("Tenant", "shop", tier="gold"))
    WEIR.follow(both)
    assert WEIR.retire(both[:1])["tier/gold"] == Outcome(
        "InUse", "Tier gold is used by shop: change or remove that too"
    )
    assert reasons(WEIR.retire(both)) == {"tier/gold": "Applied", "tenant/shop": "Applied"}
    assert not Tier.objects.exists()


def test_a_window_that_is_over_stays_where_its_object_is_deleted() -> None:
    window = {"name": "Disks", "duration_s": 60, "reason": "disks"}
    both = declared(
        document("Maintenance", "past", start="2016-01-01T00:00:00", **window),
        document("Maintenance", "coming", start="2099-01-01T00:00:00", **window),
    )
    assert set(WEIR.follow(both).values()) == {APPLIED}
    assert set(WEIR.retire(both).values()) == {APPLIED}
    assert [each.slug for each in Maintenance.objects.all()] == ["past"]


def test_what_was_made_by_hand_is_not_taken_and_does_not_go_with_the_object() -> None:
    Team.objects.create(name="serving")
    outcomes = WEIR.follow(declared(team("serving")))
    assert outcomes["team/serving"] == Outcome("Conflict", "Team serving was made by hand: rename it, or adopt it")
    assert WEIR.retire(declared(team("serving"))) == {"team/serving": APPLIED}
    assert Team.objects.exists()


def test_a_team_that_wants_approvals_is_waited_for() -> None:
    WEIR.follow(declared(team("serving", requires_approval=True)))
    for prompt in ("1", "2"):
        chat = declared(team("serving", requires_approval=True), model("chat", team="serving", prompt_version=prompt))
        assert reasons(WEIR.follow(chat))["model/chat"] == "WaitsForApproval"
    first, second = FleetProposal.objects.order_by("pk")
    assert WEIR.follow(chat)["model/chat"].message.startswith(
        f"Proposal {second.pk} waits for another person's approval"
    )
    assert (first.is_open, second.is_open, second.author) == (False, True, "cluster: weir/model/chat")
    approved(second)
    assert set(WEIR.follow(chat).values()) == {APPLIED}
    assert LLMModel.objects.get().prompt_version == "2"
    for _ in range(2):
        assert reasons(WEIR.retire(chat[1:])) == {"model/chat": "WaitsForApproval"}
    approved(FleetProposal.objects.latest("pk"))
    assert WEIR.retire(chat[1:]) == {"model/chat": APPLIED}
    assert not LLMModel.objects.exists() and FleetProposal.objects.count() == 3


def approved(proposal: FleetProposal) -> None:
    """By another person, once it was previewed."""
    proposal.preview = {"plan": proposals.outlook(proposal).digest}
    proposal.save()
    proposals.take("approve", proposal.pk, "abe", rights.unguarded)


def test_the_retirement_of_a_policy_is_waited_for_where_its_team_wants_approvals() -> None:
    entered_fleet()
    text = declared(scaling(pool="chat-eu"))
    WEIR.follow(text)
    Team.objects.update(requires_approval=True)
    for _ in range(2):
        assert WEIR.retire(text)["scaling/chat-replicas"] == Outcome(
            "WaitsForApproval",
            "The retirement of chat-replicas, revision 1 waits for another person's approval: /policies/chat-replicas?revision=1",
        )
    row = PolicyRevision.objects.get()
    assert row.retirement_by == "cluster: weir/scaling/chat-replicas"
    assert WEIR.follow(text) == {"scaling/chat-replicas": APPLIED}  # a new object of the name
    row.refresh_from_db()
    assert not row.waits_for_retirement
    WEIR.retire(text)
    steps.keep(row, "abe")
    assert "abe rejected its retirement" in WEIR.retire(text)["scaling/chat-replicas"].message
    steps.approve(steps.retire(row, "ann"), "abe")
    assert WEIR.retire(text) == {"scaling/chat-replicas": APPLIED}


def test_what_takes_the_place_of_a_deleted_policy_does_so_once_it_is_approved() -> None:
    entered_fleet()
    old, new = declared(scaling(pool="chat-eu")), declared(scaling(pool="chat-eu", name="chat-count"))
    WEIR.follow(old)
    Team.objects.update(requires_approval=True)
    assert reasons(WEIR.retire(old) | WEIR.follow(new)) == dict.fromkeys(
        ("scaling/chat-replicas", "scaling/chat-count"), "WaitsForApproval"
    )
    row = PolicyRevision.objects.get(name="chat-count")
    steps.previewed(row.pk, {}, "worker")
    steps.approve(row, "abe")
    assert WEIR.follow(new) == {"scaling/chat-count": APPLIED}
    assert WEIR.retire(old) == {"scaling/chat-replicas": APPLIED}
    assert dict(PolicyRevision.objects.values_list("name", "state")) == {
        "chat-replicas": "retired",
        "chat-count": "active",
    }


def test_what_weir_itself_changed_is_not_put_back_until_the_object_says_so() -> None:
    entered_fleet()
    texts = export(["Pool"])
    pools = declared(texts["pool-chat-eu"])
    apply_fleet({"pool.yaml": pools[0].text}, label=WEIR.label, adopt=True)
    pool = Pool.objects.get(name="chat-eu")
    with because(Reason(author=f"{CHANGED_BY}canary fp8")):
        pool.weight = 0
        pool.save()
    [settled] = [replace(each, is_new=False) for each in pools]
    assert WEIR.follow([settled])["pool/chat-eu"].reason == "Drifted"
    assert Pool.objects.get(name="chat-eu").weight == 0
    assert WEIR.follow(pools) == {"pool/chat-eu": APPLIED}
    assert Pool.objects.get(name="chat-eu").weight == 100


def test_a_policy_comes_into_force_and_is_retired() -> None:
    entered_fleet()
    text = scaling(pool="chat-eu")
    assert reasons(WEIR.follow(declared(text))) == {"scaling/chat-replicas": "Applied"}
    wrong = WEIR.follow(declared(scaling(pool="nowhere")))
    assert wrong["scaling/chat-replicas"].message.startswith("spec.pool: ")
    row = PolicyRevision.objects.get(state="active")
    assert (row.author, row.label) == ("cluster: weir/scaling/chat-replicas", WEIR.label)
    assert WEIR.retire(declared(text)) == {"scaling/chat-replicas": APPLIED}
    assert not PolicyRevision.objects.exclude(state="retired").exists()
    assert Pool.objects.exists()
