"""From what was observed to the page and its end, through the database."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from pytest_django import Settings

from controlplane.fleet.models import LLMModel, Observation, Pool, Replica, Team
from controlplane.incidents.act import actions
from controlplane.incidents.act.actions import retire
from controlplane.incidents.decide import engine, rows
from controlplane.incidents.decide.watch import Watch, look
from controlplane.incidents.models import Incident
from controlplane.incidents.notify.core.notice import Notice
from tests.support.incidents.alerts import TTFT, UP, alert, outage
from tests.support.stored_pool import stored_pool

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("away")]

NOW = datetime(2026, 11, 21, 21, 50, tzinfo=UTC)
REFUSED = "Cannot connect to host 127.0.0.1:8080"


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


@pytest.fixture(autouse=True)
def fleet() -> None:
    team = Team.objects.create(name="serving")
    for name, replicas in (("large", ("one", "two")), ("small", ("one",))):
        LLMModel.objects.create(name=f"chat-{name}", team=team)
        pool = stored_pool(name, f"chat-{name}", "eu")
        for one in replicas:
            Replica.objects.create(pool=pool, name=one, grpc=f"{one}:8001", http=f"{one}:8000")


KINDS = {
    "gateway": "gateway",
    "telemetry": "telemetry",
    "redis": "cache",
    "worker": "worker",
    "controller": "controller",
    "large/one": "replica",
    "large/two": "replica",
    "small/one": "replica",
}


def observed(seconds: float, *down: str, error: str = REFUSED) -> None:
    """As the worker writes it down."""
    known = {row.component: row for row in Observation.objects.all()}
    rows = [known.get(component) or Observation(component=component, kind=kind) for component, kind in KINDS.items()]
    for row in rows:
        row.observed_at, row.state, row.error = at(seconds), "up", ""
        if row.component in down:
            row.state, row.error, row.down_since = "down", error, row.down_since or at(seconds)
        else:
            row.up_at, row.down_since = at(seconds), None
    Observation.objects.bulk_create([row for row in rows if row.pk is None])
    written = ("observed_at", "state", "error", "up_at", "down_since")
    Observation.objects.bulk_update([row for row in rows if row.component in known], written)


def looks(from_s: float, to_s: float, *down: str, error: str = REFUSED) -> None:
    """A look every 5 s."""
    seconds = from_s
    while seconds <= to_s:
        observed(seconds, *down, error=error)
        look(at(-3600), at(seconds + 1))
        seconds += 5


def in_short(sent: list[Notice]) -> list[tuple[str, str, str]]:
    return [(one.action, one.severity, one.component) for one in sent]


def test_a_gateway_that_is_down_pages_and_resolves_once_it_has_been_up_for_a_minute(
    sent: list[Notice], settings: Settings
) -> None:
    settings.CONFIG = settings.CONFIG.model_copy(update={"operated_by": "platform"})
    looks(0, 10)
    looks(15, 45, "gateway")
    assert in_short(sent) == [("trigger", "critical", "gateway")]
    assert sent[0].summary.startswith(
        f"Gateway is down since 21:50:15 UTC; {REFUSED}; no request is served through it; "
        "resolves once it has been up for 1 min; owner: platform; http://"
    )
    assert (sent[0].team, sent[0].details["owner"]) == ("platform", "platform")
    assert sent[0].summary.endswith("/causes#gateway-down")
    row = Incident.objects.get()
    assert (row.since, row.objective, row.component) == (at(15), "", "gateway")
    looks(50, 105)
    assert Incident.objects.get().is_open
    looks(110, 115)
    row = Incident.objects.get()
    assert row.status == "resolved"
    assert sent[1].action == "resolve"
    assert sent[1].summary.startswith("Gateway is up again since 21:50:51 UTC; it was down from 21:50:15 UTC")


def test_a_process_that_takes_questions_and_does_not_answer_is_said_to_do_so(sent: list[Notice]) -> None:
    looks(0, 5)
    looks(10, 30, "gateway", error="no answer within 2 s")
    assert sent[0].summary.startswith("Gateway has not answered since 21:50:10 UTC; no answer within 2 s")


def test_flapping_stays_one_incident_and_tells_once(sent: list[Notice]) -> None:
    looks(0, 5)
    for begin in range(10, 130, 60):
        looks(begin, begin + 25, "gateway")
        looks(begin + 30, begin + 55)
    assert in_short(sent) == [("trigger", "critical", "gateway")]
    assert Incident.objects.count() == 1
    row = Incident.objects.get()
    assert row.since == at(10)
    assert "is up again since" in row.summary


def test_a_pool_without_a_replica_says_how_many_are_up_now(sent: list[Notice]) -> None:
    looks(0, 5)
    looks(10, 30, "large/one", "large/two", error="no answer within 2 s")
    assert in_short(sent) == [("trigger", "critical", "pool:large")]
    assert sent[0].team == "serving"
    assert sent[0].summary.startswith("pool large has 0 of 2 replicas up since 21:50:10 UTC; no answer within 2 s")
    looks(35, 40, "large/two")
    row = Incident.objects.get(component="pool:large")
    assert row.summary.startswith(
        "pool large has 1 of 2 replicas up again since 21:50:36 UTC; it had no replica up from"
    )


def test_unknown_is_said_and_resolves_nothing(sent: list[Notice]) -> None:
    looks(0, 5)
    looks(10, 30, "gateway")
    for seconds in range(35, 50, 5):
        look(at(-3600), at(seconds + 15))
    row = Incident.objects.get(component="gateway")
    assert row.signal == "unknown"
    assert "was down from 21:50:10 UTC when it was last seen; what it is now is not known" in row.summary
    look(at(-3600), at(3600))
    assert {one.component for one in Incident.objects.all() if one.is_open} >= {"gateway", "observer"}


def test_redis_is_a_ticket_that_explains_why_tasks_do_not_run(sent: list[Notice]) -> None:
    looks(0, 5)
    for seconds in range(10, 120, 5):
        observed(seconds, "redis")
        Observation.objects.filter(component="worker").update(observed_at=at(5))
        look(at(-3600), at(seconds + 1))
    assert in_short(sent) == [("trigger", "warning", "redis")]
    held = Incident.objects.get(component="worker")
    assert held.withheld == "inhibited"
    why = rows.withheld(held)
    assert why is not None
    assert rows.why_withheld(why).startswith("explained by the incident of Redis (#")


def test_a_component_holds_back_what_it_explains_and_then_what_is_left_of_it(sent: list[Notice]) -> None:
    looks(0, 5)
    looks(10, 30, "large/one", "large/two")
    other = alert(at=at(30), scope={"model": "chat-small"})
    engine.observe([outage(at=at(30)), alert(at=at(30)), other], at(30))
    assert [one.component for one in sent] == ["pool:large", "chat-small"]
    assert Incident.objects.get(alert_key=outage().key).withheld == "inhibited"
    looks(35, 100)
    assert not Incident.objects.get(component="pool:large").is_open
    for seconds in (105, 230):
        engine.observe([outage(at=at(seconds)), alert(at=at(seconds)), other], at(seconds))
    over = Incident.objects.get(alert_key=outage().key)
    assert (over.status, over.queued_as) == ("resolved", "")
    assert "is up again, and the failures that still count are of the time when it was down" in over.entries.last().text
    assert [one.component for one in sent if one.action == "trigger"] == ["pool:large", "chat-small"]
    engine.observe([outage(at=at(36 + 301))], at(36 + 301))
    assert sent[-1].action == "trigger", "what still fires after its short window is news"
    assert sent[-1].component == "chat-large"


def test_what_was_told_before_the_component_ends_soon_after_it(sent: list[Notice]) -> None:
    engine.observe([outage(at=at(0))], at(0))
    looks(0, 5)
    looks(10, 30, "large/one", "large/two")
    looks(35, 100)
    for seconds in (101, 222):
        engine.observe([outage(at=at(seconds))], at(seconds))
    assert [(one.action, one.component) for one in sent] == [
        ("trigger", "chat-large"),
        ("trigger", "pool:large"),
        ("resolve", "pool:large"),
        ("resolve", "chat-large"),
    ]


def test_a_component_of_which_nobody_was_told_holds_back_nothing(sent: list[Notice]) -> None:
    from controlplane.incidents.models import SilenceRecord

    SilenceRecord.objects.create(
        matchers=["component=pool:*"], starts_at=at(-60), ends_at=at(600), author="tom", reason="drill"
    )
    looks(0, 5)
    looks(10, 30, "large/one", "large/two")
    assert not sent
    assert Incident.objects.get().withheld == "silenced"
    engine.observe([outage(at=at(30))], at(30))
    assert [one.component for one in sent] == ["chat-large"]


def test_a_component_that_is_removed_ends_its_incident(sent: list[Notice]) -> None:
    looks(0, 5)
    looks(10, 30, "large/one", "large/two")
    Pool.objects.filter(name="large").update(enabled=False)
    looks(35, 35, "large/one", "large/two")
    assert [one.action for one in sent] == ["trigger", "resolve"]
    assert "no longer part of the fleet, or was disabled" in sent[1].summary


def test_a_person_may_acknowledge_and_resolve_it(sent: list[Notice]) -> None:
    looks(0, 5)
    looks(10, 30, "gateway")
    key = Incident.objects.get().notice_key
    assert retire(at(31)) == 0, "only objectives' incidents end with them"
    assert actions.acknowledge(key, "olga", at(31))
    assert actions.resolve(key, "olga", at(32))
    looks(35, 60, "gateway")
    looks(290, 300, "gateway")
    assert Incident.objects.count() == 1, "the cool-down of what a person resolved"
    assert [one.action for one in sent] == ["trigger", "acknowledge", "resolve"]


def test_objectives_are_not_touched_by_a_look_at_components() -> None:
    engine.observe([alert(at=at(0)), alert(UP, state="quiet")], at(0))
    looks(0, 5)
    assert Incident.objects.get().signal == "firing"
    assert Incident.objects.get().objective == TTFT.slug


def test_pages_show_a_component_and_not_burn_rates(reader: Client) -> None:
    looks(0, 5)
    looks(10, 30, "gateway")
    row = Incident.objects.get()
    page = reader.get(f"/incidents/{row.pk}").content.decode()
    for expected in ("Gateway is down since 21:50:10 UTC", REFUSED, "resolves once it has been up for 1 min"):
        assert expected in page
    assert re.search(r"<dt>owner</dt>\s*<dd>\s*serving\s*</dd>", page)
    assert "Burn rates" not in page
    assert "component=gateway" in page
    listed = reader.get("/incidents?component=gateway").content.decode()
    assert "Gateway is down since 21:50:10 UTC" in listed
    assert "## What was down" in reader.get(f"/incidents/{row.pk}.md").content.decode()
    assert reader.get("/").status_code == 200


def test_what_a_database_could_not_take_is_missed_by_nobody_until_it_had_time_to_come_again() -> None:
    observed(0)
    watch = Watch(at(-3600))
    for seconds in (0, 5, 65, 70):  # it was locked for a minute
        watch.look(at(seconds))
    assert not Incident.objects.exists()
    for seconds in range(80, 400, 10):
        watch.look(at(seconds))
    assert Incident.objects.filter(component="observer").exists()
