"""Applying OpenSLO: all or nothing, repeatable, pruned by label, and exported unchanged."""

import pytest
from django.test import Client

from controlplane.core.documents.plan import Applied
from controlplane.core.documents.writing import join_documents
from controlplane.fleet.models import Team
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.sli import Availability, Latency
from controlplane.slo.models import StoredObjective
from controlplane.slo.openslo.apply import apply
from controlplane.slo.openslo.export import export_all, export_one
from controlplane.slo.openslo.models import AppliedDocument
from controlplane.slo.save import save_objective
from tests.support.slo.openslo_files import FOREIGN, slo

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def serving() -> Team:
    return Team.objects.create(name="serving")


def applied(*texts: str, label: str = "repo", **options: bool) -> Applied:
    return apply({f"{number}.yaml": text for number, text in enumerate(texts)}, label=label, who="ci", **options)


def actions(found: Applied) -> list[tuple[str, str]]:
    return [(step.action, step.name) for step in found.steps]


def test_an_objective_is_made_with_everything_that_the_file_says() -> None:
    found = applied(slo())
    assert (found.done, found.problems, actions(found)) == (True, [], [("create", "chat-ttft")])
    row = StoredObjective.objects.get(slug="chat-ttft")
    made = row.to_objective()
    assert made.indicator == Latency("ttft", 100.0)
    assert (made.scope, made.owner, made.target) == ({"model": "chat-large", "tier": "premium"}, "serving", 0.95)
    assert [(one.severity, one.long_s) for one in made.windows] == [("page", 3600), ("ticket", 259_200)]
    assert row.annotations == {
        "example.com/dashboard": "17",
        "weir.slo/managed-by": "repo",
        "weir.slo/source": "0.yaml",
    }


def test_the_second_time_nothing_changes() -> None:
    applied(slo(), FOREIGN)
    before = StoredObjective.objects.get().updated_at
    found = applied(slo(), FOREIGN)
    assert {step.action for step in found.steps} == {"unchanged"}
    row = StoredObjective.objects.get()
    assert (row.revision, row.updated_at) == (1, before)


def test_a_change_is_listed_field_by_field_and_makes_a_revision() -> None:
    applied(slo())
    found = applied(slo(value=250))
    [step] = found.steps
    assert (step.action, step.changes) == ("change", (("indicator.threshold_ms", 100.0, 250.0),))
    assert StoredObjective.objects.get().revision == 2


def test_a_changed_comment_is_kept_and_makes_no_revision() -> None:
    applied(slo())
    found = applied(slo().replace("premium customers", "everybody"))
    assert actions(found) == [("change", "chat-ttft")]
    assert StoredObjective.objects.get().revision == 1
    assert "# Promised to everybody." in export_all()


def test_a_dry_run_changes_nothing_and_refuses_what_applying_would() -> None:
    found = applied(slo(), dry_run=True)
    assert (found.done, found.possible, actions(found)) == (False, True, [("create", "chat-ttft")])
    refused = applied(slo().replace("owner: serving", "owner: nobody"), dry_run=True)
    [problem] = refused.errors
    assert (problem.mark.line, problem.mark.column) == (9, 21)
    assert "weir.slo/owner='nobody': owner='nobody' is not a team: add it" in problem.message
    assert not StoredObjective.objects.exists()
    assert not AppliedDocument.objects.exists()


def test_one_wrong_document_prevents_all() -> None:
    found = applied(slo(), slo("other").replace("owner: serving", "owner: nobody"), slo("third", value=-1))
    assert not found.done
    assert not StoredObjective.objects.exists()
    found = applied(slo(), slo("other").replace("owner: serving", "owner: nobody"))
    assert not found.done
    assert not StoredObjective.objects.exists()


def test_pruning_deletes_what_has_the_label_and_is_in_no_file() -> None:
    applied(slo("one"), slo("two"), FOREIGN)
    applied(slo("elsewhere"), label="other")
    assert {step.action for step in applied(slo("one")).steps} == {"unchanged"}
    found = applied(slo("one"), prune=True)
    assert actions(found) == [("unchanged", "one"), ("prune", "web"), ("prune", "two"), ("prune", "web")]
    assert sorted(StoredObjective.objects.values_list("slug", flat=True)) == ["elsewhere", "one"]
    assert sorted(AppliedDocument.objects.values_list("name", flat=True)) == ["elsewhere", "one"]


def test_objects_with_another_label_are_unchanged_unless_adopted() -> None:
    applied(slo(), label="other")
    found = applied(slo(value=250))
    assert not found.done
    assert "belongs to the owner label 'other'" in found.conflicts[0].note
    assert applied(slo(value=250), adopt=True).done
    assert StoredObjective.objects.get().annotations["weir.slo/managed-by"] == "repo"


def test_objects_made_by_hand_are_unchanged_unless_adopted() -> None:
    save_objective(Objective("chat-ttft", "By hand", Availability(), 0.9), who="olga")
    found = applied(slo())
    assert "was made by hand" in found.conflicts[0].note
    assert StoredObjective.objects.get().name == "By hand"
    assert applied(slo(), adopt=True).done
    assert StoredObjective.objects.get().name == "Premium chat, first token"


def test_an_import_leaves_no_mark_and_may_be_repeated() -> None:
    found = applied(slo(), label="")
    assert found.done
    assert "weir.slo/managed-by" not in StoredObjective.objects.get().annotations
    assert {step.action for step in applied(slo(), label="").steps} == {"unchanged"}


def test_an_objective_that_was_deleted_comes_back() -> None:
    applied(slo())
    StoredObjective.objects.all().delete()
    found = applied(slo())
    assert [(step.action, step.note) for step in found.steps] == [("change", "its objective had been deleted")]
    assert StoredObjective.objects.exists()


def test_an_slo_that_is_not_evaluated_is_kept_with_the_reason_and_exported_unchanged() -> None:
    found = applied(FOREIGN)
    assert found.done
    assert not StoredObjective.objects.exists()
    row = AppliedDocument.objects.get(kind="SLO")
    assert "metric source of type 'Prometheus' is kept and not evaluated" in row.not_evaluated
    sli, web = export_all().split("---\n")
    assert join_documents([web, sli]) == FOREIGN


def test_export_returns_the_text_and_after_an_edit_by_hand_its_other_parts() -> None:
    applied(slo())
    row = StoredObjective.objects.get()
    assert export_one(row) == export_all() == slo()
    save_objective(Objective("chat-ttft", "Slower", Latency("ttft", 300.0), 0.9, {"model": "chat-large"}), who="olga")
    text = export_one(StoredObjective.objects.get())
    assert "value: 300" in text
    assert "example.com/dashboard: '17'" in text
    assert "service: chat-large" in text
    assert applied(slo()).steps[0].action == "change"  # the file counts


def test_an_objective_is_deleted_when_its_document_no_longer_describes_it() -> None:
    applied(slo("web"))
    found = applied(FOREIGN)
    assert ("objective", "web", None) in found.steps[0].changes
    assert not StoredObjective.objects.exists()
    assert AppliedDocument.objects.get(kind="SLO").slug == ""


def test_a_wrong_document_has_no_plan() -> None:
    assert applied(slo(), FOREIGN.replace("target: 0.99", "target: 2")).steps == []


def test_a_reference_to_an_applied_document_is_known() -> None:
    indicator = """apiVersion: openslo/v1
kind: SLI
metadata: {name: up}
spec:
  ratioMetric:
    counter: true
    good: {metricSource: {type: weir, spec: {measure: availability, count: good}}}
    total: {metricSource: {type: weir, spec: {measure: availability, count: total}}}
"""
    user = FOREIGN.split("---\n")[0].replace("indicatorRef: web", "indicatorRef: up")
    assert [problem.rule for problem in applied(user).errors] == ["unknown-reference"]
    assert applied(indicator).done
    assert applied(user).done
    assert StoredObjective.objects.get(slug="web").to_objective().indicator == Availability()


def test_the_admin_and_the_screen_say_where_an_objective_comes_from(owner: Client, away: None) -> None:
    applied(slo(), label="slos-repo")
    row = StoredObjective.objects.get()
    admin = " ".join(owner.get(f"/admin/slo/storedobjective/{row.pk}/change/").content.decode().split())
    assert "it comes from 0.yaml, applied with the owner label “slos-repo”" in admin
    screen = owner.get("/objectives/chat-ttft").content.decode()
    assert "0.yaml, owner label slos-repo" in screen
    assert 'href="/api/v1/objectives/chat-ttft.yaml"' in screen
