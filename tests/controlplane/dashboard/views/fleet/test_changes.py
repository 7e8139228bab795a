"""Pages of the fleet's changes: what differs is said in words and as YAML, and a revision is brought back from its page."""

from pathlib import Path

import pytest
from django.test import Client

from controlplane.fleet.files import revisions
from controlplane.fleet.models import FleetProposal, Pool, Team, Tier
from tests.support.entered_fleet import entered_fleet
from tests.support.web.html import html_of
from tests.support.web.people import member

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def changed(home: Path) -> None:
    entered_fleet()
    pool = Pool.objects.get(name="chat-eu")
    pool.weight = 70
    pool.save()


def test_a_revision_comes_back_from_its_page(owner: Client, changed: None) -> None:
    assert "Pool chat-eu: weight: 100 → 70" in html_of(owner.get("/changes"))
    page = html_of(owner.get("/changes/2"))
    assert "weight: 100 → 70" in page and "+ weight: 70" in page and "newest revision" in page
    answer = owner.post("/changes/1/bring-back", {"note": "too little for eu"}, follow=True)
    page = html_of(answer)
    assert "weight: 70 → 100" in page and "routes.chat-eu 70 → 100" in page and "It is being previewed" in page
    assert Pool.objects.get(name="chat-eu").weight == 70, "a preview changes nothing"
    number = FleetProposal.objects.get().pk
    page = html_of(owner.post(f"/changes/proposals/{number}/activate", follow=True))
    assert "In force as" in page and Pool.objects.get(name="chat-eu").weight == 100
    page = html_of(owner.get("/changes/3"))
    assert "too little for eu" in page and "It brought" in page
    again = html_of(owner.post("/changes/1/bring-back", follow=True))
    assert "The fleet is like that already" in again


def test_who_may_not_is_told_whom_to_ask(changed: None) -> None:
    viewer = Client()
    viewer.force_login(member("vera", "viewer"))
    page = html_of(viewer.get("/changes/1"))
    assert "To bring it back, ask an owner" in page and '<form method="post" action="/changes' not in page


def test_what_cannot_be_applied_any_more_says_so(owner: Client, changed: None) -> None:
    text = "apiVersion: weir/v1\nkind: Tenant\nmetadata: {name: new}\nspec: {tier: late}\n"
    late = Tier.objects.create(name="late")
    from controlplane.fleet.files.proposals import propose

    made = propose(text, author="ann", note="", label="repo")
    late.delete()
    page = html_of(owner.get(f"/changes/proposals/{made.pk}"))
    assert "is no tier: choose another" in page and "Unknown: it cannot be applied" in page
    assert "it cannot be applied as the fleet is now" in page


def test_an_empty_list_says_so(owner: Client, home: Path) -> None:
    Team.objects.all().delete()
    assert revisions.texts_at() == {}
    assert "Nothing was changed yet" in html_of(owner.get("/changes"))
