"""A scaling policy as fields, which write its document."""

from typing import Any

import pytest
from django.test import Client

from controlplane.core.documents.writing import write_yaml
from controlplane.policy.core.spec import Scaling
from controlplane.policy.models import PolicyRevision
from controlplane.policy.revisions import steps
from controlplane.policy.revisions.read import policy_of
from controlplane.policy.revisions.scaling_form import GROUPS, document_of, leaves, named, values_of
from tests.support.policy.people_and_texts import author, ladder, scaling, small_fleet
from tests.support.web.people import logged_in

pytestmark = pytest.mark.django_db
ADD = "/admin/policy/policyrevision/add/?kind=Scaling&as=fields"
WHOLE = """\
apiVersion: weir/v1
kind: Scaling
metadata:
  name: chat-replicas
  description: Keeps chat fast
spec:
  pool: chat-eu
  max: 8
  min: 0
  reactive:
    utilisation: 0.7
    kv_use: 0.9
    gpu_use: 0.85
    queue_delay_s: 0.5
    metrics:
      - {name: queue_length, most: 10, labels: {queue: chat}}
  schedules:
    - {name: day, floor: 4, start: "08:00", end: "20:00", weekdays: [1, 2, 3, 4, 5], zone: Europe/Berlin}
  scale_up: {max_step: 2}
  scale_down: {stabilisation_s: 600, max_step: 3}
  rate: {max_up: 6}
  budget: {gpus: 16, usd_per_day: 600}
  cluster_adds_nodes: true
  other_owner: adopt
  hold_when: kv_use > 0.95
"""


@pytest.fixture
def ann() -> Client:
    small_fleet()
    return logged_in(author("ann"))


def fields(**changes: Any) -> dict[str, Any]:
    """What a browser sends of a new form, with some fields filled in."""
    values = values_of(None, {"name": "chat-replicas", "team": "", "description": ""})
    sent = {name: value for name, value in values.items() if value not in (None, False)}
    return sent | {"pool": "chat-eu", "note": "Room for four"} | changes


def test_every_field_of_the_document_is_in_the_form_once() -> None:
    shown = [each.path for group in GROUPS.values() for each in group]
    assert sorted(shown) == sorted(path for path, _ in leaves())


def test_the_form_makes_a_draft_whose_text_has_what_is_not_the_default(ann: Client) -> None:
    assert 'name="reactive__utilisation"' in ann.get(ADD).content.decode()
    ann.post(ADD, fields(max="6", reactive__utilisation="0.7", objective="", budget__usd_per_day="600"))
    row = PolicyRevision.objects.get()
    assert (row.state, row.author, row.note, row.number) == ("draft", "ann", "Room for four", 1)
    assert row.text == (
        "apiVersion: weir/v1\nkind: Scaling\nmetadata:\n  name: chat-replicas\nspec:\n  max: 6\n  min: 1\n  pool: chat-eu\n"
        "  warm_floor: 1\n  reactive:\n    utilisation: 0.7\n  budget:\n    usd_per_day: 600\n"
    )


def test_a_problem_stands_at_its_field(ann: Client) -> None:
    answer = ann.post(ADD, fields(min="9", hold_when="kv_use >"))
    problems = answer.context["adminform"].form.errors
    assert set(problems) == {"min", "hold_when"} or set(problems) == {"hold_when", "max"}
    assert not PolicyRevision.objects.exists()
    answer = ann.post(ADD, fields(name="Not one"))
    assert "name" in answer.context["adminform"].form.errors


def test_a_revision_is_edited_as_fields_and_nothing_of_it_is_lost(ann: Client) -> None:
    before = steps.propose(WHOLE, who="ann", source="admin").revision
    page = ann.get(f"/admin/policy/policyrevision/add/?from={before.pk}&as=fields")
    begun = page.context["adminform"].form.initial
    document = write_yaml(document_of(begun))
    again = steps.propose(document, who="ann", source="admin").revision
    assert policy_of(again) == policy_of(before)
    assert isinstance(policy_of(again), Scaling)
    lost = "Comments of the present text are not"
    assert lost not in page.content.decode()
    commented = steps.propose(scaling(4), who="ann", source="admin").revision
    page = ann.get(f"/admin/policy/policyrevision/add/?from={commented.pk}&as=fields")
    assert lost in page.content.decode()


def test_other_kinds_have_no_form(ann: Client) -> None:
    row = steps.propose(ladder(), who="ann", source="admin").revision
    page = ann.get(f"/admin/policy/policyrevision/{row.pk}/change/").content.decode()
    assert "Edit it in a form" not in page
    assert "Fill in a form" not in ann.get("/admin/policy/policyrevision/add/?kind=Canary").content.decode()
    assert named("scale_down.max_step") == "scale_down__max_step"
