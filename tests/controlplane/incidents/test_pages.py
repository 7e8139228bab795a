"""The pages of incidents: what they show, what people do there, and who may."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest
from django.test import Client
from django.utils import timezone

from controlplane.incidents.act import silencing
from controlplane.incidents.decide import engine
from controlplane.incidents.decide.core.machine import subject
from controlplane.incidents.models import Entry, Incident, SilenceRecord
from controlplane.incidents.notify.delivery import enqueue
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.sli import Latency
from controlplane.slo.models import ObjectiveRevision
from controlplane.slo.save import save_objective
from tests.support.incidents.alerts import NOW, TTFT, UP, alert
from tests.support.incidents.burning import SLOW, at_the_end
from tests.support.incidents.notices import notice, pagerduty
from tests.support.slo.ticks import ticked
from tests.support.web.html import html_of
from tests.support.web.served import Filled

pytestmark = pytest.mark.django_db


@pytest.fixture
def burning(served: Filled) -> Incident:
    """With everything that the store knows of it."""
    engine.observe([at_the_end(served, SLOW)], datetime.fromtimestamp(served.to_ns // 10**9, UTC))
    return Incident.objects.get()


def test_the_list_says_how_many_were_opened_in_the_last_day_and_in_earlier_ones(
    reader: Client, burning: Incident
) -> None:
    opened = timezone.now()
    for days in (1.5, 7.5, 7.9, 8.5):
        Incident.objects.create(
            alert_key=f"k{days}",
            notice_key=f"n{days}",
            severity="ticket",
            status=Incident.Status.RESOLVED,
            opened_at=opened - timedelta(days=days),
        )
    Incident.objects.filter(pk=burning.pk).update(opened_at=opened - timedelta(hours=1))

    def said(query: str = "") -> str:
        return " ".join(re.sub("<[^>]+>", " ", html_of(reader.get(f"/incidents{query}"))).split())

    assert "Opened" not in said(), "nobody made an objective: nothing could be opened"
    save_objective(Objective("fast", "Fast", Latency("e2e", 1.0), 0.9), who="olga")
    first = ObjectiveRevision.objects
    assert re.search(r"Opened: 0 since [^,]+, when the first objective was made\.", said())
    first.update(at=opened - timedelta(days=2.5))
    assert "Opened: 1 in the last 24 hours (1 page), 1 in the 24 hours before." in said()
    first.update(at=opened - timedelta(days=9))
    assert "Opened: 1 in the last 24 hours (1 page), 1 in the 24 hours before, 2 in the same a week ago." in said()
    assert "Opened with these filters: 0 in the last 24 hours, 1 in the 24 hours before" in said("?severity=ticket")


def test_list_and_overview_show_what_is_wrong_and_the_frame_counts_it(reader: Client, burning: Incident) -> None:
    page = html_of(reader.get("/incidents"))
    assert "chat-large TTFT p95 is" in page
    assert "of the burn is queue time" in page
    assert "chat-large · serving" in page
    assert "1<span class" in page, "the navigation counts open pages"
    page = html_of(reader.get("/"))
    assert "1 open incident" in page
    assert f"/incidents/{burning.pk}" in page


def test_nothing_open_says_so_and_what_to_do(reader: Client) -> None:
    assert "Nothing is known to be open" in html_of(reader.get("/incidents")), "nothing was judged yet"
    ticked(timezone.now() - timedelta(minutes=5))
    assert "Objectives have not been judged since" in html_of(reader.get("/incidents"))
    ticked(timezone.now())
    page = html_of(reader.get("/incidents"))
    assert "Nothing is open" in page
    assert "No open incident" in page


@pytest.mark.usefixtures("away")
def test_filters_are_in_the_url(reader: Client) -> None:
    engine.observe([alert(), alert(UP, severity="ticket", burn=4)], NOW)
    assert "TTFT p95" in html_of(reader.get("/incidents?severity=page"))
    assert "availability" not in html_of(reader.get("/incidents?severity=page"))
    assert "Lift the filters" in html_of(reader.get("/incidents?owner=nobody"))
    assert "TTFT" not in html_of(reader.get("/incidents?model=chat-small"))
    assert "No incident" in html_of(reader.get("/incidents?status=resolved"))


def test_an_incident_shows_all_that_was_frozen(reader: Client, burning: Incident) -> None:
    page = html_of(reader.get(f"/incidents/{burning.pk}"))
    assert burning.attribution is not None
    for expected in (
        "of the burn is queue time",
        "resolves once no window has burned too fast for 2 min",
        "https://runbooks.example.com/chat-ttft",
        "serving",
        "Burn rate before it opened",
        "first bad request",
        "Nobody was notified: no enabled destination takes critical pages",
        *(f"/traces/{trace}" for trace in burning.attribution["traces"]),
    ):
        assert expected in page, expected


def test_each_link_of_an_incident_opens(reader: Client, burning: Incident) -> None:
    page = html_of(reader.get(f"/incidents/{burning.pk}"))
    main = page[page.index("<main") : page.index("</main>")]
    paths = {path.replace("&amp;", "&") for path in re.findall(r'href="(/[^"#]*)', main)}
    assert len(paths) > 8
    assert {path: reader.get(path).status_code for path in paths} == dict.fromkeys(paths, 200)


def test_it_is_acknowledged_and_resolved_by_name(reader: Client, burning: Incident) -> None:
    where = {"next": "/incidents?severity=page"}
    answer = reader.post(f"/incidents/{burning.pk}/acknowledge", where)
    assert (answer.status_code, answer["Location"]) == (302, where["next"])
    burning.refresh_from_db()
    assert (burning.status, burning.acknowledged_by) == ("acknowledged", "reader")
    assert "acknowledged already" in html_of(reader.post(f"/incidents/{burning.pk}/acknowledge", where, follow=True))
    asked = html_of(reader.post(f"/incidents/{burning.pk}/resolve", where))
    assert f"Resolve #{burning.pk}" in asked
    assert "for 15 minutes while it still fires" in asked
    burning.refresh_from_db()
    assert burning.status == "acknowledged", "asked, and not done"
    done = {"next": "https://evil.example/", "confirmed": "1", "note": "rolled back"}
    assert reader.post(f"/incidents/{burning.pk}/resolve", done)["Location"] == f"/incidents/{burning.pk}"
    burning.refresh_from_db()
    assert (burning.status, burning.resolved_by) == ("resolved", "reader")


def test_what_was_resolved_can_be_undone_from_the_message_and_from_its_page(reader: Client, burning: Incident) -> None:
    done = {"confirmed": "1", "next": "/incidents"}
    answered = html_of(reader.post(f"/incidents/{burning.pk}/resolve", done, follow=True))
    assert f'action="/incidents/{burning.pk}/reopen"' in answered
    page = html_of(reader.get(f"/incidents/{burning.pk}"))
    assert "It still fired when reader resolved it. Weir notifies nobody of it before" in page
    assert f'action="/incidents/{burning.pk}/reopen"' in page
    answered = html_of(reader.post(f"/incidents/{burning.pk}/reopen", follow=True))
    assert "is open again" in answered
    burning.refresh_from_db()
    assert burning.is_open
    assert "was not opened again. It is open." in html_of(reader.post(f"/incidents/{burning.pk}/reopen", follow=True))


def test_a_note_is_kept_as_text(reader: Client, burning: Incident) -> None:
    reader.post(f"/incidents/{burning.pk}/note", {"note": "<script>alert(1)</script> restarted"})
    entry = burning.entries.get(kind=Entry.Kind.NOTE)
    assert (entry.by, entry.text) == ("reader", "<script>alert(1)</script> restarted")
    assert "<script>alert(1)" not in html_of(reader.get(f"/incidents/{burning.pk}"))


def test_a_mere_link_changes_nothing(reader: Client, burning: Incident) -> None:
    for path in ("acknowledge", "resolve", "reopen", "note"):
        assert reader.get(f"/incidents/{burning.pk}/{path}").status_code == 405


def test_a_silence_is_made_of_an_incident_and_ended(reader: Client, burning: Incident) -> None:
    page = html_of(reader.get(f"/incidents/{burning.pk}"))
    assert (
        f"/silences?matcher=objective%3Dchat-ttft&amp;matcher=model%3Dchat-large&amp;next=%2Fincidents%2F{burning.pk}#new"
        in page
    )
    form = reader.get("/silences?matcher=objective%3Dchat-ttft&matcher=model%3Dchat-large").content.decode()
    assert re.findall(r"<option\s+selected>([^<]*)", form) == ["chat-ttft", "chat-large"]
    answer = reader.post(
        "/silences", {"matchers": "objective=chat-ttft\nmodel=chat-large", "length": "2h", "reason": "load test"}
    )
    assert answer.status_code == 302
    silence = SilenceRecord.objects.get()
    assert (silence.matchers, silence.author) == (["objective=chat-ttft", "model=chat-large"], "reader")
    assert silence.ends_at - silence.starts_at == timedelta(hours=2)
    assert "load test" in html_of(reader.get("/silences"))
    reader.post(f"/silences/{silence.pk}/end")
    silence.refresh_from_db()
    assert silence.ends_at <= timezone.now()


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({"matchers": "colour=blue", "length": "1h", "reason": "x"}, "names &#x27;colour&#x27;"),
        ({"matchers": "", "length": "1h", "reason": "x"}, "This field cannot be blank"),
        ({"matchers": "tier=batch", "length": "soon", "reason": "x"}, "is not a length"),
        ({"matchers": "tier=batch", "length": "900000000d", "reason": "x"}, "is not a length"),
        ({"matchers": "tier=batch", "length": "0h", "reason": "x"}, "ends after it starts"),
    ],
)
def test_a_silence_that_cannot_be_is_refused_in_words(reader: Client, form: dict[str, str], expected: str) -> None:
    answer = reader.post("/silences", form)
    assert answer.status_code == 422
    assert expected in html_of(answer)
    assert not SilenceRecord.objects.exists()


def test_as_markdown_it_begins_a_postmortem(reader: Client, burning: Incident) -> None:
    reader.post(f"/incidents/{burning.pk}/note", {"note": "rolled | back\n# not a heading"})
    answer = reader.get(f"/incidents/{burning.pk}.md")
    assert answer["Content-Type"] == "text/markdown; charset=utf-8"
    text = html_of(answer)
    assert text.startswith(f"# Incident #{burning.pk}: chat-large TTFT p95 is")
    assert "- queue: " in text
    assert "**note** by reader: rolled \\| back # not a heading" in text
    assert "\n# not" not in text


@pytest.mark.usefixtures("away")
def test_pages_do_without_the_store(reader: Client) -> None:
    engine.observe([alert(TTFT)], NOW)
    incident = Incident.objects.get()
    for path in ("/incidents", f"/incidents/{incident.pk}", f"/incidents/{incident.pk}.md"):
        answer = reader.get(path)
        assert answer.status_code == 200
        assert "the store does not answer" in html_of(answer)


def test_an_incident_leads_to_what_was_told_under_each_of_its_keys(reader: Client, burning: Incident) -> None:
    burning.earlier_keys = ["weir/chat-ttft/was-a-ticket"]
    burning.save()
    pagerduty("all")
    for key, summary in ((burning.notice_key, "the page"), (burning.earlier_keys[0], "the ticket"), ("x", "no part")):
        enqueue(replace(notice("trigger", 1, key), summary=summary))
    page = html_of(reader.get(f"/incidents/{burning.pk}"))
    (href,) = re.findall(r'href="(/deliveries\?[^"]*)"', page)
    found = html_of(reader.get(href.replace("&amp;", "&")))
    assert "the page" in found
    assert "the ticket" in found
    assert "no part" not in found


@pytest.mark.usefixtures("away")
def test_what_reached_no_pool_is_said_and_can_be_silenced(reader: Client) -> None:
    by_pool = replace(TTFT, slug="by-pool", scope={"model": "chat-large"}, split_by=("pool",))
    made = alert(by_pool, scope={"model": "chat-large", "pool": ""})
    engine.observe([made], NOW)
    page = html_of(reader.get(f"/incidents/{Incident.objects.get().pk}"))
    assert "of requests without a pool" in page
    assert "<code>no pool</code>" in page
    (href,) = set(re.findall(r'href="(/silences\?[^"#]*)', page))
    form = unescape(reader.get(unescape(href)).content.decode())
    chosen = re.findall(r"<select name=\"(\w+)\">(?:(?!</select>).)*<option\s+selected>([^<]*)", form, re.S)
    (written,) = re.findall(r"<textarea name=\"matchers\"[^>]*>([^<]*)", form)
    matchers = [*(f"{name}={value}" for name, value in chosen), *written.splitlines()]
    silence = silencing.add(matchers, NOW, NOW + timedelta(hours=1), "tom", "known").value()
    assert silence.covers(subject(made), NOW)
    assert not silence.covers(subject(alert(by_pool, scope={"model": "chat-large", "pool": "a"})), NOW)


@pytest.mark.usefixtures("away")
def test_figures_that_are_not_of_now_and_what_left_the_data_say_so(reader: Client) -> None:
    engine.observe([alert()], NOW)
    path = f"/incidents/{Incident.objects.get().pk}"
    assert "<dt>burn</dt>" in html_of(reader.get(path))
    Incident.objects.update(signal="unknown", burning={})
    page = html_of(reader.get(path))
    assert "<dt>burn, last seen</dt><dd>not known</dd>" in page
    assert "does not burn too fast" not in page
    Incident.objects.update(signal="unknown", missing_since=NOW)
    assert "no longer in the data" in html_of(reader.get("/incidents"))
