"""Pages of policies and decisions: what they say, and what they say when something is missing."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from controlplane.fleet.models import Observation, Pool
from controlplane.policy.models import Action, DecisionRecord, Pause, PolicyRevision
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.sli import Latency
from controlplane.slo.save import save_objective
from tests.support.policy import decided
from tests.support.policy.people_and_texts import small_fleet
from tests.support.web.html import words_of
from tests.support.web.served import Filled

pytestmark = pytest.mark.django_db


def text(response: object) -> str:
    return words_of(response.content.decode())  # type: ignore[attr-defined]


def test_only_who_may_write_a_policy_is_led_to_its_form(teammate: Client, owner: Client, served: Filled) -> None:
    form = "/admin/policy/policyrevision/add/"
    assert form in owner.get("/policies").content.decode() and form not in teammate.get("/policies").content.decode()
    decided.store(2)
    for path in ("/policies", "/policies/scale-chat-large-local"):
        assert form in owner.get(path).content.decode() and form not in teammate.get(path).content.decode(), path


def test_an_action_that_the_cluster_did_not_take_says_why_it_waits(teammate: Client, served: Filled) -> None:
    row, now, why = (
        decided.store(2)[-1],
        timezone.now(),
        "PATCH /scale: no answer (ReadTimeoutError).; tried again in 1 s",
    )
    times = {"generation": 1, "started_at": now, "step_at": now, "deadline_at": now, "retry_at": now}
    Action.objects.create(
        decision=row, cluster="c", pool="p", kind="up", before=1, after=3, step="planned", outcome=why, **times
    )
    assert f"p: 1 → 3, planned since {now:%H:%M:%S} UTC: {why}" in text(teammate.get("/policies"))


def test_without_policies_the_page_says_how_to_begin(teammate: Client, served: Filled) -> None:
    assert "There is no policy." in text(teammate.get("/policies"))
    assert "No policy has decided anything yet." in text(teammate.get("/decisions"))


def test_a_controller_that_does_not_decide_is_said_first_and_nothing_is_shown_as_good(
    teammate: Client, served: Filled
) -> None:
    decided.store(6, timezone.now() - timedelta(minutes=20))
    page = text(teammate.get("/policies"))
    assert "○ Nothing has been decided for 20 min" in page
    assert "Every pool has what it wants" not in page
    assert "○ was " in page
    assert "● as wanted" not in page
    assert "● not degraded" not in page
    assert "try-fp8 ○ was running" in page and "candidate got" in page
    page = text(teammate.get("/policies/try-fp8"))
    assert "○ was running chat-large-fp8 got " in page


def test_a_record_that_cannot_be_read_is_said(teammate: Client, served: Filled) -> None:
    row = decided.store(2)[-1]
    DecisionRecord.objects.filter(pk=row.pk).update(packed=DecisionRecord.pack(b"{}"))
    assert "○ The newest decision cannot be read: not a record of a decision" in text(teammate.get("/policies"))
    assert "○ The record cannot be read" in text(teammate.get(f"/decisions/{row.key}"))


def test_a_preview_stands_beside_what_is_in_force(teammate: Client, served: Filled) -> None:
    decided.store(3)
    own = {"attainment": 0.9973, "gpu_hours": 812.0, "usd": None, "flaps": 3, "most_replicas": 8}
    measured = {
        "revision": own,
        "current": own | {"gpu_hours": 930.0},
        "current_revision": 1,
        "requests": 120_000,
        "days": 13.5,
        "objective": "chat-fast",
    }
    PolicyRevision.objects.filter(name="scale-chat-large-local", number=2).update(preview=measured)
    page = text(teammate.get("/policies/scale-chat-large-local"))
    assert "revision 2 in force (1) objective attained 99.73 % 99.73 % GPU-hours 812 930" in page
    assert "120 000 requests of 13.5 days, judged by chat-fast." in page
    PolicyRevision.objects.filter(number=2).update(preview={"error": "there is no recorded traffic"})
    assert "It could not be measured: there is no recorded traffic" in text(
        teammate.get("/policies/scale-chat-large-local")
    )


def test_a_live_page_is_as_old_as_the_last_tick(teammate: Client, served: Filled) -> None:
    decided.store(4, timezone.now() - timedelta(minutes=10))
    Observation.objects.filter(component="policies").update(observed_at=timezone.now())
    assert "Nothing has been decided" not in text(teammate.get("/policies"))


def test_a_pause_is_made_with_an_end_and_ended_again(owner: Client, teammate: Client, served: Filled) -> None:
    decided.store(3)
    made = owner.post(
        "/pauses",
        {"what": "pause", "scope": "policy", "target": "ladder-chat-large", "length": "2h", "reason": "A drill"},
        follow=True,
    )
    assert "◼ 1 pause in force, to come or waiting" in text(made)
    assert "A drill" in text(teammate.get("/pauses"))
    assert "◼ Paused until" in text(teammate.get("/policies/ladder-chat-large"))
    number = Pause.objects.get().pk
    assert teammate.post(f"/pauses/pause/{number}/end").status_code == 403
    assert "Nothing is paused or overridden" in text(owner.post(f"/pauses/pause/{number}/end", follow=True))


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"reason": " "}, "reason"),
        ({"length": "soon"}, "length='soon' is not a length: use 30m, 4h or 2d."),
        ({"length": "900000000d"}, "length='900000000d' is not a length: use 30m, 4h or 2d."),
        ({"scope": "galaxy", "target": "x"}, "Value 'galaxy' is not a valid choice."),
        ({"what": "override", "pool": "chat-large-local", "replicas": "many"}, "replicas='many' is not a whole number"),
    ],
)
def test_a_wrong_pause_names_the_field_and_keeps_what_was_typed(
    owner: Client, served: Filled, changed: dict[str, str], says: str
) -> None:
    form = {"what": "pause", "scope": "all", "target": "", "length": "2h", "reason": "A drill"} | changed
    response = owner.post("/pauses", form)
    assert response.status_code == 422
    assert says in text(response)
    assert not Pause.objects.exists()


def test_a_shadow_is_brought_into_force_and_rolled_back_by_buttons(
    owner: Client, teammate: Client, served: Filled
) -> None:
    small_fleet()
    Pool.objects.filter(name="chat-eu").update(name=decided.LARGE)
    save_objective(Objective("chat-fast", "Chat is fast", Latency("e2e", 1.0), 0.9, {}), who="olga")
    decided.store(3)
    path = "/policies/scale-chat-large-local"
    refused = "disabled>Activate</button>"
    assert "Activate" in text(owner.get(path)) and refused not in owner.get(path).content.decode()
    assert refused in teammate.get(path).content.decode()
    assert teammate.post(f"{path}/2/activate").status_code == 403
    assert "● Revision 2 is in force" in text(owner.post(f"{path}/2/activate", follow=True))
    back = text(owner.post(f"{path}/2/roll-back", follow=True))
    assert "Revision 3 is in force within a second, with the text of revision 1" in back
    assert "Not done: state='retired': it is retired" in text(owner.post(f"{path}/1/activate", follow=True))
