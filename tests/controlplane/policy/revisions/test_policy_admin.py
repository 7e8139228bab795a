"""Policies in the admin: forms, buttons, and who may press them."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from controlplane.fleet.models import Team
from controlplane.policy.models import Override, Pause, PolicyRevision
from controlplane.policy.revisions import steps
from tests.support.policy.people_and_texts import approver, author, ladder, operator, scaling, small_fleet
from tests.support.web.people import logged_in

pytestmark = pytest.mark.django_db
LIST, ADD = "/admin/policy/policyrevision/", "/admin/policy/policyrevision/add/"


@pytest.fixture
def ann() -> Client:
    small_fleet()
    return logged_in(author("ann"))


def page(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200
    return str(response.content.decode())


def press(client: Client, row: PolicyRevision, step: str) -> str:
    """What the next page says."""
    path = reverse("admin:policy_policyrevision_step", args=[row.pk, step])
    return str(client.post(path, {"note": "by button"}, follow=True).content.decode())


def of(row: PolicyRevision) -> str:
    return reverse("admin:policy_policyrevision_change", args=[row.pk])


def test_an_edit_is_a_new_draft_and_the_form_begins_with_a_text_of_this_fleet(ann: Client) -> None:
    assert "pool: chat-eu" in page(ann, ADD)
    assert "kind: Degradation" in page(ann, f"{ADD}?kind=Degradation")
    ann.post(ADD, {"text": scaling(4).replace("\n", "\r\n"), "note": "Room for four"})
    first = PolicyRevision.objects.get()
    said = (first.author, first.source, first.state, first.note)
    assert (first.text, said) == (scaling(4), ("ann", "admin", "draft", "Room for four"))
    assert "max: 4" in page(ann, f"{ADD}?from={first.pk}")
    assert "warm_floor: 1" in page(ann, f"{ADD}?from={'9' * 5_000}"), "none has this number"
    ann.post(ADD, {"text": scaling(6), "note": ""})
    assert PolicyRevision.objects.count() == 2
    said = ann.post(ADD, {"text": scaling(6), "note": ""}, follow=True).content.decode()
    assert "has this text already: nothing was changed" in said
    assert PolicyRevision.objects.count() == 2
    assert "chat-replicas" in page(ann, LIST)


def test_a_text_with_problems_is_shown_again_with_a_line_for_each(ann: Client) -> None:
    bad = (
        ladder().replace("queue_delay_s > 5.0", "queue_delay_s > 5").replace("chat-ladder", "chat-ladder\n  owner: me")
    )
    said = ann.post(ADD, {"text": bad, "note": ""}).content.decode()
    assert "Line 5, column 3: metadata.owner is not known" in said
    assert "queue_delay_s &gt; 5\n" in said  # the text is kept
    assert not PolicyRevision.objects.exists()


def test_the_buttons_take_the_steps(ann: Client) -> None:
    abe, oto = logged_in(approver("abe")), logged_in(operator("oto"))
    row = steps.propose(scaling(4), who="ann", source="admin").revision
    assert "The preview has begun" in press(ann, row, "preview")
    assert "Its preview is queued" in page(ann, of(row))
    steps.previewed(row.pk, {"attainment": 0.99}, "worker")
    assert "It is in shadow" in press(ann, row, "shadow")
    assert "may not approve policies that" in press(ann, row, "approve")
    assert "It is approved" in press(abe, row, "approve")
    assert "It is in force" in press(oto, row, "activate")
    second = steps.activate(steps.propose(scaling(6), who="ann", source="admin").revision, "oto")
    assert "Roll back to revision 1" in page(oto, of(second))
    assert "in force within a second, with the text of revision 1" in press(oto, second, "roll-back")
    third = PolicyRevision.objects.get(state="active")
    assert (third.number, third.restores, third.author) == (3, 1, "oto")
    assert "Roll back to revision 2" in page(oto, of(second))  # to what is shown, if that was in force
    assert "It is retired" in press(oto, third, "retire")


def test_a_step_that_cannot_be_taken_says_why(ann: Client) -> None:
    row = steps.propose(scaling(4), who="ann", source="admin").revision
    abe = logged_in(approver("abe"))
    Team.objects.update(requires_approval=True)
    assert "preview it first" in press(abe, row, "approve")
    shown = page(ann, of(row))
    assert "Approve: it has no preview of what it would change now: preview it first" in shown
    assert ann.get(reverse("admin:policy_policyrevision_step", args=[row.pk, "shadow"])).status_code == 405
    assert ann.post(reverse("admin:policy_policyrevision_step", args=[row.pk, "explode"])).status_code == 404


def test_pauses_and_overrides_have_an_end_and_errors_at_the_field(ann: Client) -> None:
    oto = logged_in(operator("oto"))
    end = timezone.now() + timedelta(hours=2)
    when = {"starts_at_0": f"{timezone.now():%Y-%m-%d}", "starts_at_1": f"{timezone.now():%H:%M:%S}"}
    ends = {"ends_at_0": f"{end:%Y-%m-%d}", "ends_at_1": f"{end:%H:%M:%S}", "reason": "Launch"}
    said = oto.post(
        "/admin/policy/pause/add/", {"scope": "pool", "target": "chat-mars", **when, **ends}
    ).content.decode()
    assert "target=&#x27;chat-mars&#x27; is no pool: use one of chat-eu" in said
    oto.post("/admin/policy/pause/add/", {"scope": "pool", "target": "chat-eu", **when, **ends})
    pause = Pause.objects.get()
    assert (pause.author, pause.target, pause.reason) == ("oto", "chat-eu", "Launch")
    said = oto.post("/admin/policy/override/add/", {"model": "chat", "step": "1", **when, **ends}).content.decode()
    assert "activate a policy of kind Degradation first" in said
    oto.post("/admin/policy/override/add/", {"pool": "chat-eu", "replicas": "3", **when, **ends})
    assert Override.objects.get().replicas == 3
    oto.post("/admin/policy/pause/", {"action": "end_now", "_selected_action": [pause.pk]})
    pause.refresh_from_db()
    assert pause.ended_by == "oto" and pause.is_over
    assert logged_in(approver()).get("/admin/policy/pause/add/").status_code == 403
