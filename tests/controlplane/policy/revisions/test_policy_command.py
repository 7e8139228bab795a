"""`./weir check|apply|diff|export` of policies."""

import json
from pathlib import Path

import pytest
from django.core.management import CommandError

from controlplane.fleet.models import AllowedRegion, Region, Team, Tenant
from controlplane.planning.models import PlanJob
from controlplane.policy.models import PolicyRevision
from controlplane.policy.revisions import steps
from tests.support.policy.files import run, states
from tests.support.policy.people_and_texts import ladder, routing, scaling, small_fleet

pytestmark = pytest.mark.django_db


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    small_fleet()
    monkeypatch.setenv("LOGNAME", "ann")
    (tmp_path / "chat.yaml").write_text(f"# all of chat's policies\n{scaling(4)}---\n{ladder()}")
    (tmp_path / "routes.yml").write_text(routing())
    (tmp_path / "notes.txt").write_text("no YAML: at: all")
    return tmp_path


def test_apply_brings_files_into_force_and_the_second_time_nothing_changes(folder: Path) -> None:
    code, lines = run("apply", str(folder), "--note", "First policies")
    assert (code, lines) == (
        0,
        [
            "+ Scaling chat-replicas (in force)",
            "+ Degradation chat-ladder (in force)",
            "+ Routing chat-routes (in force)",
            "3 created.",
        ],
    )
    assert set(states().values()) == {"active"}
    row = PolicyRevision.objects.get(name="chat-replicas")
    assert (row.author, row.source, row.label, row.note) == ("ann", "file", "files", "First policies")
    code, lines = run("apply", str(folder))
    assert (code, lines[-1]) == (0, "Nothing changed: 3 unchanged.")
    assert len(states()) == 3
    assert run("diff", str(folder))[0] == 0


def test_a_change_is_shown_by_field_and_made_a_revision(folder: Path) -> None:
    run("apply", str(folder))
    (folder / "routes.yml").write_text(routing().replace("8192", "4096"))
    (folder / "chat.yaml").write_text(f"{scaling(6)}---\n# why\n{ladder()}")
    code, lines = run("diff", str(folder))
    assert code == 1
    assert lines[:4] == [
        "~ Scaling chat-replicas (in force)",
        "    spec.max: 4 → 6",
        "~ Degradation chat-ladder (in force)",
        "    text: its comments or parts that are not evaluated",
    ]
    assert lines[-1] == "Would be: 3 changed."
    assert len(states()) == 3
    assert run("apply", str(folder))[1][-1] == "3 changed."
    assert states()["chat-replicas@1"] == "retired" and states()["chat-replicas@2"] == "active"


def test_a_dry_run_finds_the_same_refusals_and_changes_nothing(folder: Path) -> None:
    (folder / "twin.yaml").write_text(scaling(2, name="twin"))
    for dry in (["--dry-run"], []):
        code, lines = run("apply", str(folder), *dry)
        assert code == 1
        assert f"{folder}/twin.yaml:1:1: error: pool:chat-eu has a Scaling policy in force" in lines[0]
        assert lines[-1] == "Nothing was applied: 1 error, no warnings."
        assert states() == {}


def test_problems_have_lines_of_their_file(folder: Path) -> None:
    bad = folder / "chat.yaml"
    bad.write_text(
        f"# all of chat's policies\n{scaling(4)}---\n{ladder().replace('queue_delay_s > 5.0', 'queue_delay > 5')}"
    )
    code, lines = run("check", str(bad))
    assert code == 1
    assert lines[0].startswith(f"{bad}:24:7: error: spec.steps[1].enter: 'queue_delay > 5'")
    assert lines[-1] == "1 documents: 1 error, no warnings"
    code, lines = run("check", str(bad), "--format", "json")
    assert json.loads("\n".join(lines))[0]["line"] == 24
    assert run("check", str(bad), "--format", "github")[1][0].startswith(f"::error file={bad},line=24,col=7")
    assert run("apply", str(folder))[0] == 1
    assert states() == {}


def test_the_same_name_in_two_files_is_refused(folder: Path) -> None:
    (folder / "again.yaml").write_text(scaling(9))
    code, lines = run("check", str(folder))
    assert code == 1
    assert f"is the name of the policy at {folder}/again.yaml:1 too: choose another" in lines[0]


def test_prune_retires_what_no_file_has_any_more_and_makes_room(folder: Path) -> None:
    run("apply", str(folder))
    (folder / "chat.yaml").write_text(scaling(4, name="chat-count"))
    code, lines = run("apply", str(folder), "--prune")
    assert (code, lines[-1]) == (0, "1 created, 1 unchanged, 2 retired.")
    assert states() == {
        "chat-count@1": "active",
        "chat-ladder@1": "retired",
        "chat-replicas@1": "retired",
        "chat-routes@1": "active",
    }


def test_what_was_written_by_hand_or_belongs_elsewhere_is_a_conflict_until_it_is_adopted(folder: Path) -> None:
    steps.activate(steps.propose(scaling(2), who="bob", source="admin").revision, "bob")
    code, lines = run("apply", str(folder))
    assert (code, lines[0]) == (1, "! Scaling chat-replicas (was made by hand: rename it, or adopt it)")
    assert lines[-1] == "Nothing was applied: 1 in conflict."
    assert run("apply", str(folder), "--adopt")[0] == 0
    assert states()["chat-replicas@2"] == "active"
    code, lines = run("apply", str(folder), "--owner-label", "others")
    assert (code, "belongs to the owner label 'files'" in lines[0]) == (1, True)


def test_an_edit_by_hand_lasts_until_the_next_apply(folder: Path) -> None:
    run("apply", str(folder))
    steps.activate(steps.propose(scaling(2), who="bob", source="admin").revision, "bob")
    assert run("apply", str(folder))[1][1] == "    spec.max: 2 → 4"


def test_a_text_that_was_rolled_back_is_not_brought_back_by_itself(folder: Path) -> None:
    run("apply", str(folder))
    (folder / "chat.yaml").write_text(scaling(6))
    run("apply", str(folder))
    steps.roll_back("chat-replicas", "oto")
    code, lines = run("apply", str(folder))
    assert code == 1
    assert (
        "is the text of revision 2, which was rolled back to revision 1: change the file, or give --again" in lines[0]
    )
    assert run("apply", str(folder), "--again")[0] == 0
    assert states()["chat-replicas@4"] == "active"


def test_where_the_team_wants_approval_apply_waits_for_it(folder: Path) -> None:
    Team.objects.update(requires_approval=True)
    path = str(folder / "routes.yml")
    code, lines = run("apply", path)
    assert (code, lines[0]) == (0, "+ Routing chat-routes (waits for another person's approval; its preview begins)")
    row = PolicyRevision.objects.get()
    assert (row.state, PlanJob.objects.get().request) == ("draft", {"revision": row.pk})
    code, lines = run("apply", path)
    assert (code, lines) == (
        0,
        [
            "? Routing chat-routes (revision 1 waits for another person's approval)",
            "Nothing changed: 1 waiting for approval.",
        ],
    )
    steps.previewed(row.pk, {}, "worker")
    steps.approve(row, "abe")
    code, lines = run("apply", path)
    assert (code, lines[0]) == (0, "~ Routing chat-routes (revision 1 comes into force)")
    assert states() == {"chat-routes@1": "active"}


def test_apply_to_shadow_does_not_bring_into_force(folder: Path) -> None:
    assert run("apply", str(folder), "--to", "shadow")[0] == 0
    assert set(states().values()) == {"shadow"}
    assert run("apply", str(folder), "--to", "shadow")[1][-1] == "Nothing changed: 3 unchanged."
    assert run("apply", str(folder))[1][-1] == "3 brought on."
    assert set(states().values()) == {"active"}


def test_export_writes_what_is_in_force_with_its_comments(folder: Path, tmp_path: Path) -> None:
    run("apply", str(folder))
    assert "\n".join(run("export", "Routing")[1]) + "\n" == routing()
    out = tmp_path / "out"
    assert run("export", "Scaling", "Degradation", "Routing", "--to", str(out))[1] == [f"3 written to {out}"]
    assert (out / "scaling-chat-replicas.yaml").read_text() == f"# all of chat's policies\n{scaling(4)}"
    assert run("apply", str(out))[1][-1] == "Nothing changed: 3 unchanged."
    with pytest.raises(CommandError, match="no kind is named chat-mars"):
        run("export", "chat-mars")


def test_a_folder_without_files_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="has no"):
        run("check", str(tmp_path))


def test_apply_names_the_tenants_that_a_failover_cannot_move(folder: Path) -> None:
    for tenant, region in (("premium-shop", "eu"), ("batch-shop", "us")):
        tenant_row, region_row = Tenant.objects.get(name=tenant), Region.objects.get(name=region)
        AllowedRegion.objects.create(tenant=tenant_row, region=region_row)
    text = routing() + "  failover:\n    - {name: eu-away, pools: [chat-eu], to: {chat-us: 100}}\n"
    (folder / "routes.yml").write_text(text)
    _, lines = run("apply", str(folder / "routes.yml"))
    assert lines[0] == "+ Routing chat-routes (in force; eu-away does not move premium-shop, whose regions forbid it)"
