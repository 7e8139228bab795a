"""A ClickHouse that is away under load, killed or hanging: nothing acknowledged is lost, nothing counts twice, and telemetry and the pages
report it.

In `make test` the store is away until everybody has said so.
"""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from controlplane.fleet.observe.loop import observe_once
from controlplane.telemetry.query import answers
from controlplane.telemetry.store import Store
from deploy.local.ports import free_port
from tests.support.soak import sized
from tests.support.telemetry.embedded_store import dsn_of, store_process
from tests.support.telemetry.process import Run, Running
from tests.support.telemetry.sender import Sender, all_there_once
from tests.support.wait import eventually
from tests.support.web.people import member

OUTAGE_S = sized(0.0, soak=60.0)
Server = tuple[str, "subprocess.Popen[str]"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Callable[[], Server]]:
    """Starts a ClickHouse in a process of its own. Called again, it starts at the same address with the same data."""
    home, port = tmp_path / "clickhouse", free_port()
    opened: list[Any] = []

    def begin() -> Server:
        opened.append(store_process(home, "--port", str(port)))
        process = opened[-1].__enter__()
        return dsn_of(process), process

    yield begin
    for one in opened:
        one.__exit__(None, None, None)


def pages(telemetry: Running, dsn: str, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Client:
    """The dashboard of this telemetry and this store."""
    settings.CONFIG = settings.CONFIG.model_copy(
        update={"otlp_http_port": telemetry.http_port, "store_dsn": dsn, "redis_url": "redis://127.0.0.1:1/0"}
    )
    store = Store(dsn)
    monkeypatch.setattr(answers, "store", lambda: store)
    client = Client()
    client.force_login(member("reader", "viewer"))
    return client


@pytest.mark.django_db(transaction=True)
def test_nothing_is_lost_or_doubled_and_everybody_says_so(
    run: Run, server: Callable[[], Server], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn, process = server()
    began = time.time_ns()
    telemetry = run(store_dsn=dsn, stalled_s=5).ready()
    dashboard = pages(telemetry, dsn, settings, monkeypatch)
    sender = Sender(telemetry, seed=7)
    sender.start()
    try:
        eventually(lambda: telemetry.metric("weir_ingest_stored_requests_total") > 0, "rows come")
        process.send_signal(signal.SIGSTOP)
        everybody_says_so(telemetry, dashboard, sender, "store.stalled")
        no_reader_waits(dsn)
        process.send_signal(signal.SIGCONT)
        eventually(lambda: telemetry.readiness()["store"] == "ok", "it says that the store is back", within_s=120)
        process.kill()
        everybody_says_so(telemetry, dashboard, sender, "store.lost")
        dsn, process = server()
        eventually(lambda: telemetry.readiness()["store"] == "ok", "it says that the store is back", within_s=120)
    finally:
        process.send_signal(signal.SIGCONT)
        sender.end()
    eventually(lambda: telemetry.metric("weir_ingest_behind_seconds") == 0, "the spool is worked off", within_s=180)
    observe_once()
    assert "the store does not answer" not in dashboard.get("/").content.decode().lower()
    all_there_once(Store(dsn), sender, began)


def everybody_says_so(telemetry: Running, dashboard: Client, sender: Sender, logged: str) -> None:
    away_s = time.monotonic()
    eventually(lambda: telemetry.readiness()["store"] == "away", "telemetry says that the store is away")
    said = telemetry.readiness()
    assert telemetry.get("/readyz")[0] == 200, "it still takes spans"
    assert said["store_reason"]
    assert telemetry.metric("weir_store_reachable") == 0
    assert telemetry.metric("weir_ingest_behind_seconds") > 0
    eventually(lambda: logged in telemetry.log.read_text(), "the log says so")
    before = len(sender.acknowledged)
    eventually(lambda: len(sender.acknowledged) > before, "senders are still answered")
    observe_once()
    overview = dashboard.get("/").content.decode()
    assert "The store does not answer" in overview
    assert "the store does not answer it: spans wait in the spool" in overview
    assert dashboard.get("/latency").status_code == 503
    time.sleep(max(0.0, OUTAGE_S - (time.monotonic() - away_s)))  # as long as was asked for


def no_reader_waits(dsn: str) -> None:
    """A store that hangs is away for a reader long before a query would be given up."""
    store = Store(dsn, timeout_s=3600)
    store._answered_s = -1e9  # some time has passed
    assert not store.ping()
