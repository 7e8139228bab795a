"""Who acts on incidents, and silences: responders and owners of the team whose they are; whoever else reads."""

import pytest
from django.utils import timezone

from controlplane.accounts.models import Membership
from controlplane.incidents.decide import engine
from controlplane.incidents.models import Incident, SilenceRecord
from controlplane.slo.models import StoredObjective
from tests.support.incidents.alerts import NOW, alert
from tests.support.web.html import html_of
from tests.support.web.people import logged_in, member

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("away")]
MINE, THEIRS = "owner=serving", "owner=search"


@pytest.fixture
def incident() -> Incident:
    engine.observe([alert()], NOW)
    return Incident.objects.get()


@pytest.mark.parametrize(("role", "team"), [("viewer", "serving"), ("approver", "serving"), ("owner", "search")])
def test_who_is_not_the_teams_does_not_act_and_reads_who_may(incident: Incident, role: str, team: str) -> None:
    """accounts/matrix/test_pages.py has the other actions."""
    client = logged_in(member("nora", role, team=team))  # type: ignore[arg-type]
    before = incident.entries.count()
    answer = client.post(f"/incidents/{incident.pk}/acknowledge", {"note": "mine"})
    assert answer.status_code == 403
    assert "ask an owner or responder of serving, or an administrator" in html_of(answer)
    incident.refresh_from_db()
    assert (incident.status, incident.entries.count()) == ("open", before)
    page = html_of(client.get(f"/incidents/{incident.pk}"))
    assert "Ask an owner or responder of serving, or an administrator." in page and "/acknowledge" not in page


def test_a_role_that_is_given_or_taken_counts_from_the_next_request_on(incident: Incident) -> None:
    user = member("rob", "viewer")
    client, path = logged_in(user), f"/incidents/{incident.pk}/note"
    assert client.post(path, {"note": "1"}).status_code == 403
    given = Membership.objects.create(user=user, team=user.memberships.get().team, role="responder")
    assert client.post(path, {"note": "2"}).status_code == 302
    given.delete()
    assert client.post(path, {"note": "3"}).status_code == 403


@pytest.mark.parametrize(
    ("matchers", "allowed"),
    [
        (MINE, True),
        (f"{MINE}\nseverity=page", True),
        (THEIRS, False),
        ("severity=page", False),
        ("owner=s*", False),
        ("owner!=search", False),
        ("objective=mine", True),
        ("objective=theirs", False),
        (f"{THEIRS}\nobjective=mine", False),
    ],
)
def test_a_silence_hides_what_its_makers_team_owns_alone(matchers: str, allowed: bool) -> None:
    client = logged_in(member("rob", "responder"))
    member("sue", "responder", team="search")
    for user, slug in (("rob", "mine"), ("sue", "theirs")):
        team = Membership.objects.get(user__username=user).team
        StoredObjective.objects.create(slug=slug, name=slug, owner=team, target=0.9, indicator_kind="availability")
    form = {"matchers": matchers, "length": "1h", "reason": "load test"}
    assert client.post("/silences", form).status_code == (302 if allowed else 403)
    assert SilenceRecord.objects.exists() == allowed


def test_a_silence_is_ended_by_its_teams_people_alone() -> None:
    client = logged_in(member("rob", "responder"))
    now = timezone.now()
    mine, theirs = (
        SilenceRecord.objects.create(matchers=[text], starts_at=now, ends_at=now.replace(year=2100), author="x")
        for text in (MINE, THEIRS)
    )
    assert client.post(f"/silences/{theirs.pk}/end").status_code == 403
    assert client.post(f"/silences/{mine.pk}/end").status_code == 302
    page = html_of(client.get("/silences"))
    assert f"/silences/{theirs.pk}/end" not in page and "Ask an owner or responder of search" in page
