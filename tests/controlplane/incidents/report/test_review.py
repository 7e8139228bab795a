"""The handover's screen and Markdown, and what an incident's screen says of the others."""

import html
from dataclasses import asdict
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlplane.accounts.models import SavedView
from controlplane.fleet.changes import DECISIONS
from controlplane.fleet.models import Team
from controlplane.incidents.act import actions
from controlplane.incidents.components.core.alert import ComponentAlert
from controlplane.incidents.core.rules import RULES
from controlplane.incidents.decide import engine
from controlplane.incidents.models import Incident
from controlplane.incidents.notify import changes
from controlplane.policy.models import DecisionChange, DecisionRecord
from controlplane.telemetry.core.objective_counts import FailedAs
from tests.support.incidents.alerts import NOW, UP, after, alert
from tests.support.web.html import html_of
from tests.support.web.people import logged_in, member

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("away")]
RANGE = {
    "from": f"{NOW - timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}",
    "to": f"{NOW + timedelta(hours=7):%Y-%m-%dT%H:%M:%SZ}",
}


def opened() -> tuple[Incident, Incident]:
    """One that was acknowledged after 3 min and resolved after 9, and one like it that is open."""
    engine.observe([alert(at=after(0))], after(0))
    earlier = Incident.objects.get()
    actions.acknowledge(earlier.notice_key, "ana", after(3), "")
    actions.resolve(earlier.notice_key, "ana", after(9), "a *bad* canary, rolled back")
    engine.observe([alert(at=after(60)), alert(UP, at=after(60))], after(60))
    return earlier, Incident.objects.exclude(pk=earlier.pk).get(objective=earlier.objective)


def test_a_shift_is_said_on_the_screen_and_in_markdown(reader: Client) -> None:
    earlier, again = opened()
    screen = html.unescape(html_of(reader.get("/incidents/review", RANGE)))
    text = reader.get("/incidents/review.md", RANGE).content.decode()
    assert "3\u202fmin" in screen and "- MTTA: 3 min; pages that nobody acknowledged: 2" in text
    assert "9\u202fmin" in screen and "- MTTR: 9 min" in text
    assert " so far<" in screen.partition(">Open")[2].partition(">Over<")[0]
    assert f"#{again.pk} " in text.partition("## Open now")[2].partition("##")[0]
    assert f"/incidents/{earlier.pk}" in screen.partition(">Over<")[2]
    nothing = reader.get("/incidents/review.md", {"from": "2026-01-01", "to": "2026-01-02"}).content.decode()
    assert "- MTTA: not known" in nothing and "Nothing." in nothing


def test_an_incident_names_earlier_ones_like_it_what_else_is_open_and_what_policies_did(reader: Client) -> None:
    earlier, again = opened()
    failed = {"bad": 7, "total": 9, "errors": [asdict(FailedAs("queue_full", 503, "queue", 7))]}
    Incident.objects.filter(pk__in=[earlier.pk, again.pk]).update(attribution=failed)
    record = DecisionRecord.objects.create(at=after(61), version=1, holder="t", generation=1, packed=b"")
    for kind, shadow, reason in (("scale", False, "the queue grows"), ("scale", True, "only a thought")):
        DecisionChange.objects.create(
            decision=record, at=after(61), kind=kind, model=again.scope.get("model", ""), pool="p", before=2, after=3,
            shadow=shadow, reason=reason,
        )  # fmt: skip
    screen = html.unescape(html_of(reader.get(f"/incidents/{again.pk}")))
    similar = screen.partition('id="similar"')[2].partition("</section>")[0]
    assert (
        f"/incidents/{earlier.pk}" in similar
        and "a *bad* canary, rolled back" in similar
        and "the same scope and error queue_full" in similar
    )
    acted = screen.partition('id="acted"')[2].partition("</section>")[0]
    assert "the queue grows" in acted and "only a thought" not in acted
    other = Incident.objects.exclude(pk__in=[earlier.pk, again.pk]).get()
    assert f"/incidents/{other.pk}" in acted


def test_an_incident_of_a_component_names_what_was_changed_before_it_and_what_policies_did_about_it(
    reader: Client,
) -> None:
    """It is seen down later than it went down: a failover may be active by then, and did not cause it."""
    down = ComponentAlert(
        component="pool:p", name="pool p", kind="pool", state="firing", severity="page", at_ns=int(after(1).timestamp()) * 10**9,
        since=NOW, up_at=NOW - timedelta(seconds=5), scope={"model": "chat", "pool": "p"}, up=0, of=2,
    )  # fmt: skip
    engine.observe_components([down], after(1), RULES)
    for source, before_s in (("policy", 60), (DECISIONS, 2), ("ci", 3_600)):
        changes.record(source, f"change of {source}", source, NOW - timedelta(seconds=before_s))
    record = DecisionRecord.objects.create(at=NOW, version=1, holder="t", generation=1, packed=b"")
    DecisionChange.objects.create(
        decision=record, at=NOW - timedelta(seconds=2), kind="route", model="chat", reason="p-down: off → active"
    )
    screen = html.unescape(html_of(reader.get(f"/incidents/{Incident.objects.get().pk}")))
    acted, _, before = screen.partition('id="acted"')[2].partition("</section>")[0].partition("Changed before")
    assert "p-down: off → active" in acted
    assert [source for source in ("policy", DECISIONS, "ci") if f"change of {source}" in before] == ["policy"]


def test_a_view_is_saved_pinned_for_a_team_and_removed_by_its_author_alone(
    reader: Client, django_user_model: type[User]
) -> None:
    Team.objects.get_or_create(name="serving")
    path = "/latency?from=now-1h&to=now&model=chat-large&compare=yesterday"
    reader.post("/views", {"name": "large now", "team": "serving", "pinned": "1", "next": path})
    other = logged_in(member("someone", "viewer"))
    pinned = html.unescape(html_of(other.get("/incidents"))).partition('class="pinned"')[2].partition("</nav>")[0]
    assert f'href="{path}"' in pinned and "serving: large now" in pinned
    assert path in html.unescape(html_of(other.get("/quick", {"text": "large now"})))
    view = SavedView.objects.get()
    assert other.post(f"/views/{view.pk}/remove").status_code == 404
    for bad in ("//evil.example/x", "/no-such-screen", "https://evil.example"):
        reader.post("/views", {"name": "bad", "next": bad})
    reader.post("/views", {"name": "mine", "next": "/requests"})
    assert SavedView.objects.filter(name="bad").count() == 0
    assert "mine" not in html_of(other.get("/quick", {"text": "mine"})).replace("“mine”", "")
    reader.post(f"/views/{view.pk}/remove")
    assert [each.name for each in SavedView.objects.all()] == ["mine"]
