"""A service elsewhere gets the heartbeat while all is well, and misses it otherwise."""

from datetime import timedelta

import pytest
from aiohttp import web
from django.test import Client as TestClient
from django.utils import timezone
from pytest_django import Settings

from controlplane.incidents.notify.delivery.health.health import health
from controlplane.incidents.notify.delivery.health.heartbeat import HeartbeatThread, are_judged, ping
from controlplane.incidents.notify.delivery.models import Heartbeat
from tests.support.http_server import serving
from tests.support.incidents.notices import pagerduty
from tests.support.slo.ticks import ticked

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("ticks", "judged"),
    [
        ([], False),
        ([(10, "")], True),
        ([(61, "")], False),
        ([(100, ""), (5, "the store does not answer")], False),
        ([(50, ""), (5, "the store does not answer")], True),
        ([(5, "the store does not answer")], False),
    ],
)
def test_objectives_count_as_judged_for_a_minute_after_a_tick_without_an_error(
    ticks: list[tuple[float, str]], judged: bool
) -> None:
    now = timezone.now()
    for ago_s, error in ticks:
        ticked(now - timedelta(seconds=ago_s), error)
    assert are_judged(now) is judged


async def test_the_heartbeat_is_an_ordinary_guarded_get(settings: Settings) -> None:
    asked: list[str] = []

    async def take(request: web.Request) -> web.Response:
        asked.append(request.method)
        return web.Response()

    async with serving(web.get("/ping", take)) as url:
        await ping(f"{url}/ping")
        assert asked == []
        settings.CONFIG = settings.CONFIG.model_copy(update={"outbound_allow": ["127.0.0.1"]})
        await ping(f"{url}/ping")
    assert asked == ["GET"]


def test_a_worker_that_does_not_send_or_looks_at_no_component_sends_no_heartbeat(pinged: list[str]) -> None:
    ticked(timezone.now())
    watch = HeartbeatThread()
    watch.ping_when_due()
    assert pinged == []
    for name in (Heartbeat.SENDER, Heartbeat.COMPONENTS):
        watch.ping_when_due()
        assert pinged == []
        Heartbeat.objects.create(name=name, at=timezone.now())
    watch.ping_when_due()
    watch.ping_when_due()
    assert pinged == ["https://elsewhere.example/ping"]


async def _refuse(request: web.Request) -> web.Response:
    return web.Response(status=404, text="no such check")


@pytest.mark.parametrize(
    ("allowed", "says"),
    [([], "127.0.0.1 is not a public address: list it in WEIR_OUTBOUND_ALLOW"), (["127.0.0.1"], "404 no such check")],
)
async def test_a_heartbeat_that_is_not_accepted_says_why(allowed: list[str], says: str, settings: Settings) -> None:
    settings.CONFIG = settings.CONFIG.model_copy(update={"outbound_allow": allowed})
    async with serving(web.get("/ping", _refuse)) as url:
        assert says in await ping(f"{url if allowed else url.replace('http:', 'https:')}/ping")


@pytest.mark.usefixtures("away")
def test_pages_and_health_say_that_the_heartbeat_is_refused_until_it_is_accepted(
    settings: Settings, pinged: list[str], reader: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    pagerduty("all")
    ticked(timezone.now())
    for name in (Heartbeat.SENDER, Heartbeat.COMPONENTS):
        Heartbeat.objects.create(name=name, at=timezone.now())
    answers = ["10.0.0.5 is not a public address: list it in WEIR_OUTBOUND_ALLOW if it is meant", ""]

    async def refused(url: str) -> str:
        return answers.pop(0)

    monkeypatch.setattr("controlplane.incidents.notify.delivery.health.heartbeat.ping", refused)
    HeartbeatThread().ping_when_due()
    found = health(timezone.now())
    assert (found.state, found.title) == ("degraded", "The heartbeat is not accepted")
    assert "does not get the heartbeat: 10.0.0.5 is not a public address" in found.detail
    for path in ("/", "/deliveries"):
        assert "10.0.0.5 is not a public address" in reader.get(path).content.decode()
    HeartbeatThread().ping_when_due()
    assert health(timezone.now()).title == ""
    answers.append("away")
    HeartbeatThread().ping_when_due()
    settings.CONFIG = settings.CONFIG.model_copy(update={"heartbeat_url": ""})
    assert health(timezone.now()).title == "", "there is no heartbeat"
