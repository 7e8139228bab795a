"""Revisions of policies are proposed, and taken from state to state."""

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import transaction

from controlplane.fleet.models import LLMModel, Pool, RoutingRules, Team
from controlplane.fleet.snapshot_values import fleet_values
from controlplane.policy.models import PolicyRevision, RevisionEvent
from controlplane.policy.models.revision import ImmutableError
from controlplane.policy.revisions import steps
from controlplane.policy.revisions.read import PolicyTextError
from controlplane.policy.revisions.skeletons import SKELETONS, skeleton
from tests.support.policy.people_and_texts import routing, scaling, small_fleet

pytestmark = pytest.mark.django_db
FIGURES = {"attainment": 0.997}


@pytest.fixture(autouse=True)
def team() -> Team:
    return small_fleet()


def proposed(text: str, who: str = "ann") -> PolicyRevision:
    return steps.propose(text, who=who, source="admin").revision


def in_force(text: str, who: str = "ann") -> PolicyRevision:
    return steps.activate(proposed(text, who), who)


def test_each_edit_is_a_numbered_draft_and_the_same_text_is_none() -> None:
    first = steps.propose(scaling(4), who="ann", source="admin", note="Room for four")
    again = steps.propose(scaling(4), who="bob", source="api")
    second = steps.propose(scaling(6), who="bob", source="api")
    assert (first.created, again.created, second.created) == (True, False, True)
    assert again.revision == first.revision
    assert [(row.number, row.author, row.source, row.state) for row in PolicyRevision.objects.all()] == [
        (2, "bob", "api", "draft"),
        (1, "ann", "admin", "draft"),
    ]
    assert first.revision.team == "serving"  # of the model that the pool serves
    assert first.revision.text == scaling(4)  # with its comments


def test_a_bad_text_is_refused_by_line() -> None:
    bad = scaling(4).replace("pool: chat-eu", "pool: chat-eü").replace("min: 1", "min: 9")
    with pytest.raises(PolicyTextError) as caught:
        steps.propose(bad, who="ann", source="admin")
    [problem] = caught.value.problems
    assert (problem.mark.line, problem.path) == (6, "spec.pool")
    with pytest.raises(PolicyTextError) as caught:
        steps.propose("\n# above\n" + scaling(4, pool="chat-mars"), who="ann", source="admin")
    [problem] = caught.value.problems
    assert (problem.mark.line, problem.path) == (8, "spec.pool")
    assert "there is no pool 'chat-mars'" in problem.message
    assert not PolicyRevision.objects.exists()


def test_a_name_keeps_its_kind() -> None:
    proposed(scaling(name="chat-all"))
    with pytest.raises(PolicyTextError, match="is a policy of kind Scaling already: choose another name"):
        proposed(routing(name="chat-all"))


def test_a_revision_goes_all_the_way_and_each_step_has_its_author() -> None:
    row = proposed(scaling())
    steps.previewed(row.pk, FIGURES, "worker")
    steps.shadow(row, "ann")
    steps.approve(row, "abe", "Looks right")
    steps.activate(row, "oto")
    row = steps.retire(row, "oto", "No longer needed")
    assert (row.state, row.preview, row.approved_by, row.activated_by, row.retired_by) == (
        "retired", FIGURES, "abe", "oto", "oto",
    )  # fmt: skip
    events = [(event.what, event.who, event.note) for event in row.events.order_by("pk")]
    assert events == [
        ("proposed", "ann", ""),
        ("previewed", "worker", ""),
        ("shadow", "ann", ""),
        ("approved", "abe", "Looks right"),
        ("activated", "oto", ""),
        ("retired", "oto", "No longer needed"),
    ]


def test_activation_retires_what_was_in_force_and_older_proposals() -> None:
    first, stale, second = in_force(scaling(4)), proposed(scaling(5)), proposed(scaling(6))
    steps.activate(second, "oto")
    assert dict(PolicyRevision.objects.values_list("number", "state")) == {1: "retired", 2: "retired", 3: "active"}
    assert RevisionEvent.objects.filter(revision=first, what="retired").get().note == "revision 3 took its place"
    with pytest.raises(ValidationError, match="it is retired: propose it again"):
        steps.activate(stale, "oto")


def test_one_revision_of_a_policy_is_in_shadow() -> None:
    first, second = proposed(scaling(4)), proposed(scaling(5))
    steps.previewed(first.pk, FIGURES, "worker")
    steps.shadow(first, "ann")
    steps.shadow(second, "ann")
    assert dict(PolicyRevision.objects.values_list("number", "state")) == {1: "previewed", 2: "shadow"}


def test_a_preview_that_ended_in_an_error_is_none(team: Team) -> None:
    Team.objects.filter(pk=team.pk).update(requires_approval=True)
    row = proposed(scaling())
    steps.previewed(row.pk, {"error": "nothing was recorded"}, "worker")
    with pytest.raises(ValidationError, match="preview it first"):
        steps.approve(row, "abe")
    with pytest.raises(ValidationError, match="serving wants another person's approval, and this is draft"):
        steps.activate(row, "ann")


@pytest.mark.parametrize(
    ("text", "team_of_text"),
    [
        (scaling().replace("  name: chat-replicas", "  name: chat-replicas\n  team: lax"), "lax"),
        (scaling().replace("pool: chat-eu", "gateway: gateway\n  reactive: {replica_rps: 200}"), ""),
    ],
)
def test_neither_another_team_in_the_text_nor_the_api_tier_avoids_the_approval_that_a_team_wants(
    team: Team, text: str, team_of_text: str
) -> None:
    Team.objects.create(name="lax")
    row = proposed(text)
    assert row.team == team_of_text
    Team.objects.filter(pk=team.pk).update(requires_approval=True)
    with pytest.raises(ValidationError, match="wants another person's approval"):
        steps.activate(row, "ann")


def test_a_pool_that_was_removed_since_is_not_scaled() -> None:
    row = proposed(scaling())
    Pool.objects.get(name="chat-eu").delete()
    with pytest.raises(ValidationError, match="there is no pool 'chat-eu'"):
        steps.activate(row, "ann")


def test_a_roll_back_brings_the_text_before_into_force_at_once(team: Team) -> None:
    in_force(scaling(4))
    in_force(scaling(6))
    Team.objects.filter(pk=team.pk).update(requires_approval=True)  # the text was approved when it was new
    row = steps.roll_back("chat-replicas", "oto")
    assert (row.number, row.text, row.restores, row.state, row.author) == (3, scaling(4), 1, "active", "oto")
    with pytest.raises(ValidationError, match="had no other text in force"):
        steps.roll_back("chat-replicas", "oto")
    row = steps.roll_back("chat-replicas", "oto", number=2)
    assert (row.number, row.text, row.restores) == (4, scaling(6), 2)


def test_a_roll_back_twice_goes_further_back() -> None:
    for most in (4, 5, 6):
        in_force(scaling(most))
    assert steps.roll_back("chat-replicas", "oto").restores == 2
    assert steps.roll_back("chat-replicas", "oto").restores == 1


@pytest.mark.parametrize(("number", "reason"), [(2, "was never in force"), (1, "is in force"), (9, "is no revision")])
def test_only_what_was_in_force_is_rolled_back_to(number: int, reason: str) -> None:
    in_force(scaling(4))
    proposed(scaling(6))
    with pytest.raises(ValidationError, match=reason):
        steps.roll_back("chat-replicas", "oto", number=number)


def test_routing_rules_are_published_while_they_are_in_force() -> None:
    row = in_force(routing())
    [rule] = fleet_values().rules
    assert (rule.name, rule.model, rule.tiers, rule.min_prompt_tokens, rule.fallbacks) == (
        "chat-routes/long", "chat", ("premium",), 8192, ("chat-eu",),
    )  # fmt: skip
    in_force(routing().replace("8192", "4096"))
    assert [rule.min_prompt_tokens for rule in fleet_values().rules] == [4096]
    steps.roll_back(row.name, "oto")
    assert [rule.min_prompt_tokens for rule in fleet_values().rules] == [8192]
    steps.retire(PolicyRevision.objects.get(state="active"), "oto")
    assert not RoutingRules.objects.exists()


def test_nothing_takes_a_revision_along() -> None:
    User.objects.create_user("ann")
    row = in_force(scaling())
    Team.objects.all().delete()
    User.objects.all().delete()
    LLMModel.objects.all().delete()
    kept = PolicyRevision.objects.get()
    assert (kept.text, kept.author, kept.team, kept.events.count()) == (scaling(), "ann", "serving", 2)
    for delete in (row.delete, PolicyRevision.objects.all().delete):
        with pytest.raises(ImmutableError), transaction.atomic():
            delete()


@pytest.mark.parametrize("kind", SKELETONS)
def test_the_text_to_begin_with_is_a_policy_of_this_fleet(kind: str) -> None:
    assert proposed(skeleton(kind)).kind == kind
