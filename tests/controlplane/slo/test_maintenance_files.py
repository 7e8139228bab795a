"""Maintenance windows as files: named by slugs, of objectives by their slugs, and past ones stay."""

from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied

from controlplane.accounts.core.actions import EDIT_FLEET
from controlplane.core.documents.plan import managed_by
from controlplane.fleet.files import kinds
from controlplane.fleet.files.apply import apply
from controlplane.fleet.files.export import export
from controlplane.fleet.files.revisions import differing, noted, write
from controlplane.slo.models import Maintenance, StoredObjective
from controlplane.sources.crds import definition
from tests.support.entered_fleet import applied, entered_fleet
from tests.support.slo.objective_file import OBJECTIVE
from tests.support.web.people import member

pytestmark = pytest.mark.django_db
OBJECTIVES = f"{OBJECTIVE}---\n" + OBJECTIVE.replace("chat", "search").replace("serving", "search")
WINDOW = """\
apiVersion: weir/v1
kind: Maintenance
metadata:
  name: drivers
spec:
  name: Driver update
  start: '2036-11-22T02:00:00'
  zone: Europe/Berlin
  scope:
    model: chat
  reason: New drivers
  objectives:
    - chat-ttft
"""
PAST = WINDOW.replace("drivers", "past").replace("2036", "2016")


@pytest.fixture(autouse=True)
def _fleet(home: Path) -> None:
    entered_fleet()


def by_hand(**fields: Any) -> Maintenance:
    given = {"name": "Disks & fans", "start": "2036-01-01T00:00:00", "reason": "-", "author": "olga", **fields}
    row = Maintenance.objects.create(**given)
    write()
    return row


def test_a_window_comes_with_the_objective_that_it_names_and_goes_out_as_it_came() -> None:
    assert applied(WINDOW, OBJECTIVES)[0] == [
        "+ Maintenance drivers", "+ Objective chat-ttft", "+ Objective search-ttft",
    ]  # fmt: skip
    row = Maintenance.objects.get()
    assert (row.slug, row.author, [each.slug for each in row.objectives.all()]) == ("drivers", "files", ["chat-ttft"])
    assert export(["Maintenance"], "serving") == {"maintenance-drivers": WINDOW}
    assert export(["Maintenance"], "search") == {}
    assert applied(WINDOW, OBJECTIVES)[0][0] == "= Maintenance drivers"
    changed = applied(WINDOW.replace("- chat-ttft", "- search-ttft"), OBJECTIVES, dry_run=True)[0]
    assert changed[:2] == ["~ Maintenance drivers", "    objectives: ['chat-ttft'] → ['search-ttft']"]
    assert [each.slug for each in row.objectives.all()] == ["chat-ttft"]


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("- chat-ttft", "- chat-itl", "fleet.yaml:12:3: error: objectives='chat-itl' is no objective"),
        ("'2036-11-22T02:00:00'", "soon", "fleet.yaml:7:3: error: start: start='soon' is not a time"),
        ("  scope:\n    model: chat", "  scope: [1]", "fleet.yaml:9:3: error: scope: scope=[1] is no mapping"),
        ("model: chat\n", "model: 5\n", "scope=5 is no text: write the value of model in quotes"),
        ("name: drivers", "name: The drivers", "“The drivers” is not a name"),
    ],
)
def test_what_is_wrong_is_named_by_line(before: str, after: str, says: str) -> None:
    [problem] = applied(WINDOW.replace(before, after), OBJECTIVES)[1]
    assert says in problem
    assert not Maintenance.objects.exists()


def test_what_was_made_by_hand_has_a_name_of_its_own_and_is_neither_pruned_nor_taken() -> None:
    for _ in range(2):
        by_hand()
    assert list(export(["Maintenance"])) == [f"maintenance-disks-fans-20360101-0000{each}" for each in ("", "-2")]
    mine = WINDOW.replace("drivers", "disks-fans-20360101-0000")
    assert "was made by hand" in applied(mine, OBJECTIVES)[0][0]
    applied(mine, OBJECTIVES, adopt=True)
    assert applied(OBJECTIVES, prune=True)[0][-1] == "- Maintenance disks-fans-20360101-0000"
    row = Maintenance.objects.get()
    assert (row.slug, row.author) == ("disks-fans-20360101-0000-2", "olga")


def test_a_window_that_is_over_stays_where_its_file_is_gone_and_one_to_come_goes() -> None:
    weekly = (
        WINDOW.replace("drivers", "weekly").replace("2036", "2016").replace("  zone", "  rule: FREQ=WEEKLY\n  zone")
    )
    applied(OBJECTIVES, WINDOW, PAST, weekly, weekly.replace("weekly", "ended").replace("WEEKLY", "WEEKLY;COUNT=3"))
    assert applied(OBJECTIVES, PAST)[0][-1] == "= Maintenance past"
    over = "is over and stays: without it, the requests in it would count"
    assert applied(OBJECTIVES, prune=True)[0][2:] == [
        f"= Maintenance ended ({over})",
        f"= Maintenance past ({over})",
        "- Maintenance drivers",
        "- Maintenance weekly",
    ]
    assert set(Maintenance.objects.values_list("slug", flat=True)) == {"past", "ended"}
    applied(OBJECTIVES, PAST.replace("  reason", "  enabled: false\n  reason"))
    assert "- Maintenance past" in applied(OBJECTIVES, prune=True)[0]


def test_a_window_is_of_the_owners_of_its_objectives_as_they_were_and_will_be() -> None:
    guard = kinds.guard(member("ona", "owner", team="serving"), EDIT_FLEET)
    applied(OBJECTIVES)
    theirs = WINDOW.replace("- chat-ttft", "- search-ttft")
    for text in (theirs, WINDOW.replace("- chat-ttft", "- chat-ttft\n    - search-ttft")):
        with pytest.raises(PermissionDenied, match="edit objectives of"):
            apply({"files.yaml": text}, label="repo", guard=guard)
    assert not Maintenance.objects.exists()
    assert apply({"files.yaml": WINDOW}, label="repo", guard=guard).done
    write()
    with pytest.raises(PermissionDenied, match="edit objectives of search"):
        apply({"files.yaml": theirs}, label="repo", guard=guard)


def test_an_objective_that_goes_takes_along_what_was_of_it_alone_and_no_window_becomes_one_of_all() -> None:
    applied(OBJECTIVES, WINDOW)
    search = OBJECTIVES.split("---\n")[1]
    [problem] = applied(search, WINDOW, prune=True)[1]
    assert "objectives='chat-ttft' is no objective" in problem
    assert Maintenance.objects.get().objectives.get().slug == "chat-ttft"
    both = by_hand(slug="both")
    both.objectives.set(StoredObjective.objects.all())
    write()
    since = noted()
    StoredObjective.objects.filter(slug="chat-ttft").delete()
    assert [row.slug for row in Maintenance.objects.all()] == ["both"]
    texts = differing(since)
    assert texts["Maintenance", "drivers"] == "" and "chat-ttft" not in texts["Maintenance", "both"]


def test_what_files_manage_is_locked_in_rest_and_there_is_a_resource_of_it(owner: Any) -> None:
    applied(OBJECTIVES, WINDOW, label=managed_by("git"))
    row = Maintenance.objects.get()
    answer = owner.delete(f"/api/v1/maintenance/{row.pk}")
    assert answer.status_code == 409 and "is managed by git: change it there" in answer.json()["detail"]
    assert definition("Maintenance")["spec"]["names"]["plural"] == "maintenances"
