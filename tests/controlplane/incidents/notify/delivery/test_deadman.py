"""When evaluation stops, somebody is paged by what still works; and a service elsewhere misses the heartbeat."""

from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web
from django.test import Client as TestClient
from django.utils import timezone
from pytest_django import Settings

from controlplane.incidents.notify.delivery.core import deadman
from controlplane.incidents.notify.delivery.health.evaluation_watch import EvaluationWatch, look, ping
from controlplane.incidents.notify.delivery.health.health import health
from controlplane.incidents.notify.delivery.models import Delivery, Heartbeat
from controlplane.slo.models import Tick
from tests.support.incidents.notices import pagerduty
from tests.support.incidents.pagerduty import PagerDuty
from tests.support.incidents.sender import StartSender

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def tick(ago_s: float, error: str = "") -> None:
    Tick.objects.create(at=NOW - timedelta(seconds=ago_s), took_s=0.1, objectives=3, holder="a", error=error)


def told() -> list[str]:
    return [one.action for one in Delivery.objects.order_by("id")]


def test_a_controller_that_ticks_pages_nobody() -> None:
    pagerduty("all")
    tick(10)
    assert look(NOW)
    assert told() == []


def test_a_controller_that_never_ran_pages_nobody_and_is_not_well() -> None:
    pagerduty("all")
    assert not look(NOW)
    assert told() == []


def test_one_page_when_it_stops_one_resolve_when_it_is_back_and_another_page_the_next_time() -> None:
    pagerduty("all")
    tick(61)
    assert not look(NOW)
    assert not look(NOW + timedelta(seconds=5))
    assert told() == ["trigger"]
    Tick.objects.create(at=NOW + timedelta(seconds=10), took_s=0.1, objectives=3, holder="a")
    assert look(NOW + timedelta(seconds=12))
    assert look(NOW + timedelta(seconds=17))
    assert told() == ["trigger", "resolve"]
    look(NOW + timedelta(seconds=200))
    assert told() == ["trigger", "resolve", "trigger"]
    first, second, third = Delivery.objects.order_by("id")
    assert first.key == second.key != third.key


def test_ticks_that_can_judge_nothing_are_no_evaluation_and_the_page_says_why() -> None:
    pagerduty("all")
    tick(100)
    tick(5, error="the store does not answer")
    look(NOW)
    (page,) = Delivery.objects.all()
    assert "The store does not answer" in page.notice["summary"]
    assert page.notice["severity"] == "critical"


def test_a_stop_that_outlasts_what_is_known_of_ticks_stays_a_stop() -> None:
    pagerduty("all")
    tick(100)
    look(NOW)
    Tick.objects.all().delete()
    look(NOW + timedelta(days=2))
    assert told() == ["trigger"]


def test_the_words_of_the_page() -> None:
    silent = deadman.Evaluation(NOW - timedelta(seconds=90), NOW - timedelta(seconds=90))
    found = deadman.notice("trigger", "k", silent, NOW, "https://weir")
    assert found.summary == (
        "Objectives have not been judged since 11:58:30 UTC: no page of an objective comes until they are. "
        "The controller does not tick: check that its process runs and that its database answers"
    )


def test_the_watch_pages_through_the_sender_with_no_broker_anywhere(
    stand_in: PagerDuty, start_sender: StartSender
) -> None:
    pagerduty("all", url=stand_in.url)
    Tick.objects.create(at=timezone.now() - timedelta(seconds=90), took_s=0.1, objectives=3, holder="a")
    start_sender()
    watch = EvaluationWatch(look_s=0.05)
    watch.start()
    try:
        assert stand_in.wait(lambda it: len(it.alerts) == 1)
        ((_, key),) = stand_in.alerts
        Tick.objects.create(at=timezone.now(), took_s=0.1, objectives=3, holder="a")
        assert stand_in.wait(lambda it: it.actions(key) == ["trigger", "resolve"])
    finally:
        watch.stop()
        watch.join(30)
    assert stand_in.violations == []


async def test_the_heartbeat_is_an_ordinary_guarded_get(settings: Settings) -> None:
    asked: list[str] = []

    async def take(request: web.Request) -> web.Response:
        asked.append(request.method)
        return web.Response()

    application = web.Application()
    application.router.add_get("/ping", take)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/ping"
    await ping(url)
    assert asked == []
    settings.CONFIG = settings.CONFIG.model_copy(update={"outbound_allow": ["127.0.0.1"]})
    await ping(url)
    assert asked == ["GET"]
    await runner.cleanup()


def test_a_worker_that_does_not_send_or_looks_at_no_component_sends_no_heartbeat(pinged: list[str]) -> None:
    Tick.objects.create(at=timezone.now(), took_s=0.1, objectives=3, holder="a")
    watch = EvaluationWatch()
    watch.look_and_ping()
    assert pinged == []
    for name in (Heartbeat.SENDER, Heartbeat.COMPONENTS):
        watch.look_and_ping()
        assert pinged == []
        Heartbeat.objects.create(name=name, at=timezone.now())
    watch.look_and_ping()
    watch.look_and_ping()
    assert pinged == ["https://elsewhere.example/ping"]


def test_what_people_were_told_of_already_is_not_paged_again_and_what_outlives_it_is() -> None:
    pagerduty("all")
    tick(61)
    assert not look(NOW, explained=lambda: True), "the service elsewhere is told nothing good"
    assert told() == []
    assert not look(NOW + timedelta(seconds=5), explained=lambda: False)
    assert told() == ["trigger"]


async def _refuse(request: web.Request) -> web.Response:
    return web.Response(status=404, text="no such check")


@pytest.mark.parametrize(
    ("allowed", "says"),
    [([], "127.0.0.1 is not a public address: list it in WEIR_OUTBOUND_ALLOW"), (["127.0.0.1"], "404 no such check")],
)
async def test_a_heartbeat_that_is_not_accepted_says_why(allowed: list[str], says: str, settings: Settings) -> None:
    application = web.Application()
    application.router.add_get("/ping", _refuse)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    settings.CONFIG = settings.CONFIG.model_copy(update={"outbound_allow": allowed})
    scheme = "http" if allowed else "https"
    assert says in await ping(f"{scheme}://127.0.0.1:{runner.addresses[0][1]}/ping")
    await runner.cleanup()


@pytest.mark.usefixtures("away")
def test_pages_and_health_say_that_the_heartbeat_is_refused_until_it_is_accepted(
    settings: Settings, pinged: list[str], reader: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    pagerduty("all")
    Tick.objects.create(at=timezone.now(), took_s=0.1, objectives=3, holder="a")
    for name in (Heartbeat.SENDER, Heartbeat.COMPONENTS):
        Heartbeat.objects.create(name=name, at=timezone.now())
    answers = ["10.0.0.5 is not a public address: list it in WEIR_OUTBOUND_ALLOW if it is meant", ""]

    async def refused(url: str) -> str:
        return answers.pop(0)

    monkeypatch.setattr("controlplane.incidents.notify.delivery.health.evaluation_watch.ping", refused)
    EvaluationWatch().look_and_ping()
    found = health(timezone.now())
    assert (found.state, found.title) == ("degraded", "The heartbeat is not accepted")
    assert "does not get the heartbeat: 10.0.0.5 is not a public address" in found.detail
    for path in ("/", "/deliveries"):
        assert "10.0.0.5 is not a public address" in reader.get(path).content.decode()
    EvaluationWatch().look_and_ping()
    assert health(timezone.now()).title == ""
    answers.append("away")
    EvaluationWatch().look_and_ping()
    settings.CONFIG = settings.CONFIG.model_copy(update={"heartbeat_url": ""})
    assert health(timezone.now()).title == "", "there is no heartbeat"
