"""Where a team wants approvals, what is in force is retired once another person has approved that."""

from pathlib import Path

import pytest
from django.core.exceptions import ValidationError

from controlplane.fleet.models import RoutingRules, Team
from controlplane.policy.models import PolicyRevision
from controlplane.policy.revisions import steps
from tests.support.policy.files import run, states
from tests.support.policy.people_and_texts import approver, operator, routing, scaling, small_fleet
from tests.support.web.people import logged_in

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def strict() -> Team:
    return small_fleet(requires_approval=True)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOGNAME", "ann")
    (tmp_path / "routes.yaml").write_text(routing())
    (tmp_path / "chat.yaml").write_text(scaling(4))
    run("apply", str(tmp_path))
    for row in PolicyRevision.objects.all():
        approved(row)
    run("apply", str(tmp_path))
    assert set(states().values()) == {"active"}
    return tmp_path


def approved(row: PolicyRevision) -> PolicyRevision:
    if row.state != "active":
        steps.previewed(row.pk, {}, "worker")
    return steps.approve(row, "abe", "Fine")


def in_force(text: str) -> PolicyRevision:
    return steps.activate(approved(steps.propose(text, who="ann", source="admin").revision), "ann")


def events(row: PolicyRevision) -> list[tuple[str, str]]:
    """Since it came into force."""
    taken = list(row.events.order_by("pk").values_list("what", "who"))
    return taken[taken.index(("activated", "ann")) + 1 :]


def test_it_is_in_force_until_another_person_approves() -> None:
    row = in_force(routing())
    row = steps.retire(row, "ann", "Not needed")
    assert (row.state, row.retirement_by, RoutingRules.objects.count()) == ("active", "ann", 1)
    with pytest.raises(ValidationError, match="its retirement by ann waits for another person's approval"):
        steps.retire(row, "oto")
    with pytest.raises(ValidationError, match="'Ann' proposed its retirement, and an approval is by another person"):
        steps.approve(row, "Ann")
    row = approved(row)
    assert (row.state, row.retired_by, RoutingRules.objects.count()) == ("retired", "ann", 0)
    assert events(row) == [("retirement", "ann"), ("approved", "abe"), ("retired", "ann")]


@pytest.mark.parametrize(("who", "what"), [("ann", "retirement_withdrawn"), ("abe", "retirement_rejected")])
def test_it_is_withdrawn_or_rejected_and_can_be_proposed_again(who: str, what: str) -> None:
    row = in_force(routing())
    with pytest.raises(ValidationError, match="nobody has proposed to retire it"):
        steps.keep(row, who)
    row = steps.keep(steps.retire(row, "ann"), who, "Still needed")
    assert (row.state, row.retirement_by) == ("active", "")
    assert events(row) == [("retirement", "ann"), (what, who)]
    assert (steps.rejection(row) is not None) == (who == "abe")
    assert steps.retire(row, "oto").retirement_by == "oto" and steps.rejection(row) is None


def test_a_proposal_is_withdrawn_at_once() -> None:
    row = steps.propose(routing(), who="ann", source="admin").revision
    assert steps.retire(row, "ann").state == "retired"


def test_a_new_text_that_follows_a_canary_waits_as_the_one_before_did_and_a_roll_back_does_not() -> None:
    in_force(routing().replace("8192", "4096"))
    row = steps.retire(in_force(routing()), "ann")
    row = steps.rewrite(row, routing().replace("chat-us: 100", "chat-us: 90"), "canary fp8", "It gets less")
    assert row.waits_for_retirement and row.retirement_by == "ann"
    assert not steps.roll_back("chat-routes", "oto").waits_for_retirement
    assert set(states().values()) == {"retired", "active"}


def test_where_the_team_wants_no_approvals_any_more_it_is_retired_at_once(strict: Team) -> None:
    row = steps.retire(in_force(routing()), "ann")
    Team.objects.filter(pk=strict.pk).update(requires_approval=False)
    assert steps.retire(row, "oto").state == "retired"


def test_who_may_press_which_button() -> None:
    oto, abe = logged_in(operator("oto")), logged_in(approver("abe"))
    row = in_force(routing())
    page, step = f"/policies/{row.name}", f"/admin/policy/policyrevision/{row.pk}"
    assert "Propose to retire it" in oto.get(page).content.decode()
    said = oto.post(f"{page}/1/retire", follow=True).content.decode()
    assert "It stays in force until another person has approved its retirement." in said
    assert "oto proposed at" in said and "Keep in force</button>" in said
    assert "proposed its retirement, and an approval is by another person: ask another approver of its team" in said
    assert oto.post(f"{page}/1/approve").status_code == 403
    assert "has approved its retirement, which oto" in abe.get(f"{step}/change/").content.decode()
    assert "waits for retirement by oto" in abe.get("/policies").content.decode()
    assert "It stays in force." in abe.post(f"{step}/step/keep", follow=True).content.decode()
    oto.post(f"{page}/1/retire")
    assert "It is retired." in abe.post(f"{step}/step/approve", follow=True).content.decode()


def test_prune_proposes_once_and_the_file_that_is_back_withdraws(folder: Path) -> None:
    (folder / "routes.yaml").unlink()
    lines = run("apply", str(folder), "--prune")[1]
    assert lines[1:] == [
        "? Routing chat-routes (in none of the files; its retirement waits for another person's approval)",
        "1 unchanged, 1 proposed to be retired.",
    ]
    assert run("apply", str(folder), "--prune")[1][-1] == "Nothing changed: 1 waiting for approval, 1 unchanged."
    (folder / "routes.yaml").write_text(routing())
    assert "revision 1 stays in force: its retirement is withdrawn" in run("apply", str(folder), "--prune")[1][1]
    assert not PolicyRevision.objects.exclude(retirement_by="").exists()


def test_a_retirement_that_was_rejected_is_not_proposed_by_files_again(folder: Path) -> None:
    (folder / "routes.yaml").unlink()
    run("apply", str(folder), "--prune")
    steps.keep(PolicyRevision.objects.get(name="chat-routes"), "abe", "Still needed")
    code, lines = run("apply", str(folder), "--prune")
    assert (code, lines[-1]) == (1, "Nothing was applied: 1 in conflict.")
    assert "its retirement was rejected by abe: put it back into the files, or give --again" in lines[1]
    assert run("apply", str(folder), "--prune", "--again")[0] == 0
    approved(PolicyRevision.objects.get(name="chat-routes"))
    assert run("apply", str(folder), "--prune")[1][-1] == "Nothing changed: 1 unchanged."


def test_what_takes_its_place_retires_it_by_one_approval_and_nothing_is_without_a_policy(folder: Path) -> None:
    (folder / "chat.yaml").write_text(scaling(4, name="chat-count"))
    waits = "? Scaling chat-replicas (in none of the files; stays in force until chat-count takes its place)"
    for _ in range(2):
        assert waits in run("apply", str(folder), "--prune")[1]
        assert states() == {"chat-count@1": "draft", "chat-replicas@1": "active", "chat-routes@1": "active"}
    approved(PolicyRevision.objects.get(name="chat-count"))
    assert run("apply", str(folder), "--prune")[1][-1] == "1 brought on, 1 unchanged, 1 retired."
    assert states() == {"chat-count@1": "active", "chat-replicas@1": "retired", "chat-routes@1": "active"}


def test_one_approval_is_not_for_both_where_the_earlier_one_is_another_teams_too(folder: Path, strict: Team) -> None:
    """The team that its text names wants approvals, and the pool's does not."""
    Team.objects.filter(pk=strict.pk).update(requires_approval=False)
    Team.objects.create(name="search", requires_approval=True)
    (folder / "chat.yaml").write_text(scaling(4).replace("metadata:", "metadata:\n  team: search"))
    run("apply", str(folder))
    approved(PolicyRevision.objects.get(name="chat-replicas", number=2))
    run("apply", str(folder))
    (folder / "chat.yaml").write_text(scaling(4, name="chat-count"))
    code, lines = run("apply", str(folder), "--prune")
    assert code == 1 and "has a Scaling policy in force, 'chat-replicas': retire that one first" in lines[0]
    assert states()["chat-replicas@2"] == "active"
