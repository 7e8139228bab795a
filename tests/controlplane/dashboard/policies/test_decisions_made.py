"""Pages of policies and decisions, all of the same decisions: what they say of them, in part, and one by one."""

from collections.abc import Iterator

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoDbBlocker

from controlplane.fleet.models import Observation
from controlplane.policy.models import DecisionRecord, PolicyRevision
from tests.support.policy import decided
from tests.support.web.html import words_of
from tests.support.web.served import Filled

pytestmark = pytest.mark.django_db
CLIMBED = 24
"""Steps after which both lower tiers are degraded."""


@pytest.fixture(scope="module")
def made(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[list[DecisionRecord]]:
    """The decisions, made once: that takes longer than to look at them."""
    with django_db_blocker.unblock(), transaction.atomic():
        yield decided.store(CLIMBED)
        transaction.set_rollback(True)


@pytest.fixture(autouse=True)
def _ticked(made: list[DecisionRecord], db: None) -> None:
    """The controller has just decided."""
    Observation.objects.filter(component="policies").update(observed_at=timezone.now())


def text(response: object) -> str:
    return words_of(response.content.decode())  # type: ignore[attr-defined]


def test_where_things_stand_says_what_each_pool_has_and_wants_and_on_which_step_each_tier_is(
    teammate: Client, served: Filled
) -> None:
    page = text(teammate.get("/policies"))
    assert "◆ Degraded: chat-large for batch (step 2 of 2, shed), chat-large for standard (step 2 of 2, shed)" in page
    assert "chat-large-local 5 ready 5" in page
    assert "refused, to come back after 20 s" in page
    assert "62 % 10 min not fully measured" in page
    assert "try-fp8 ◐ runs" in page and "candidate gets" in page
    assert "scale-chat-large-local Scaling ● revision 1 ◐ revision 2" in page
    assert "perfect foresight" in page and "GPU-h" in page


def test_decisions_are_listed_under_the_latency_and_lead_to_their_records(teammate: Client, served: Filled) -> None:
    response = teammate.get("/decisions")
    page = text(response)
    assert "Ladder chat-large batch 1 → 2" in page
    assert "Replicas (shadow, not done) chat-large-local" in page
    figure = response.context["figure"]
    linked = [trace for trace in figure["data"] if "customdata" in trace]
    assert {trace["name"] for trace in linked} == {"scale", "hold", "ladder", "canary"}
    assert all(href.startswith("/decisions/") for trace in linked for href, _ in trace["customdata"])
    assert any(trace["name"] == "E2E p95" and any(trace["y"]) for trace in figure["data"])


def test_decisions_are_listed_while_the_store_is_away(teammate: Client, served: Filled, away: None) -> None:
    page = text(teammate.get("/decisions"))
    assert "▲ The store does not answer: latency is missing, what was decided is not." in page
    assert "Ladder chat-large batch 1 → 2" in page


@pytest.mark.parametrize(
    ("query", "present", "absent"),
    [
        ("kind=ladder", "Ladder chat-large", "Replicas"),
        ("pool=chat-small-local", "chat-small-local", "Ladder chat-large"),
        ("shadow=without", "Replicas chat-large-local", "(shadow, not done)"),
        ("policy=try-fp8", "Canary chat-large", "Ladder chat-large"),
        ("tier=batch", "Ladder chat-large batch", "chat-large standard"),
    ],
)
def test_filters_choose_decisions(teammate: Client, served: Filled, query: str, present: str, absent: str) -> None:
    rows = text(teammate.get(f"/decisions?{query}")).partition("because policy")[2].partition("Page, model, pool,")[0]
    assert present in rows
    assert absent not in rows


def test_a_wrong_value_is_answered_with_the_remedy(teammate: Client, served: Filled) -> None:
    assert teammate.get("/decisions?kind=guess").status_code == 400
    assert teammate.get("/decisions/0123456789abcdef").status_code == 404
    assert teammate.get("/policies/nothing").status_code == 404


def test_a_record_is_explained_from_what_was_seen_to_what_became_of_it(
    teammate: Client, served: Filled, made: list[DecisionRecord]
) -> None:
    row = next(row for row in made if row.changes.filter(pool=decided.LARGE, kind="scale").exists())
    page = text(teammate.get(f"/decisions/{row.key}"))
    for part in ("Seen", "Candidates", "reactive", "Rails", "Decided", "Hindsight", "What became of it"):
        assert part in page
    assert "The cluster accepted" in page
    assert "gateway http://127.0.0.1:8080" in page
    again = text(teammate.get(f"/decisions/{row.key}/replay"))
    assert "the same decision, byte for byte" in again


def test_a_policy_shows_its_revisions_its_difference_and_what_its_shadow_would_have_done(
    teammate: Client, served: Filled
) -> None:
    page = text(teammate.get("/policies/scale-chat-large-local"))
    assert "● Revision 1 is in force" in page
    assert "+ utilisation: 0.5" in page
    assert "In shadow since" in page
    assert "to 8 at most" in page
    assert "Not measured yet" in page
    assert "max: 5" in text(teammate.get("/policies/scale-chat-large-local?revision=1"))
    assert teammate.get("/policies/scale-chat-large-local?revision=9").status_code == 404


def test_a_shadow_is_compared_with_what_is_in_force_about_the_same_whatever_its_name(
    teammate: Client, served: Filled
) -> None:
    row = PolicyRevision.objects.get(name="scale-chat-large-local", number=2)
    PolicyRevision.objects.filter(pk=row.pk).update(
        name="other", text=row.text.replace("scale-chat-large-local", "other")
    )
    page = text(teammate.get("/policies/other"))
    assert "; scale-chat-large-local, which is in force about the same, made" in page
    PolicyRevision.objects.filter(name="scale-chat-large-local").update(state="retired")
    page = text(teammate.get("/policies/other"))
    assert "Nothing is in force about the same." in page and "revision –" not in page
