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
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from controlplane.fleet.observe.loop import observe_once
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.query import answers
from controlplane.telemetry.store import Store
from deploy.local.ports import free_port
from tests.support.soak import sized
from tests.support.telemetry.embedded_store import dsn_of, store_process
from tests.support.telemetry.process import Run, Running
from tests.support.telemetry.sender import SPANS_OF_A_TRACE, Sender
from tests.support.wait import eventually

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
    client.force_login(User.objects.create_user("reader"))
    return client


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("how", ["killed", "hanging"])
def test_nothing_is_lost_or_doubled_and_everybody_says_so(
    how: str,
    run: Run,
    server: Callable[[], Server],
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    dsn, process = server()
    began = time.time_ns()
    telemetry = run(store_dsn=dsn, stalled_s=5).ready()
    dashboard = pages(telemetry, dsn, settings, monkeypatch)
    sender = Sender(telemetry, seed=7)
    sender.start()
    try:
        eventually(lambda: telemetry.metric("weir_ingest_stored_requests_total") > 0, "rows come")
        process.kill() if how == "killed" else process.send_signal(signal.SIGSTOP)
        away_s = time.monotonic()
        eventually(lambda: telemetry.readiness()["store"] == "away", "telemetry says that the store is away")
        said = telemetry.readiness()
        assert telemetry.get("/readyz")[0] == 200, "it still takes spans"
        assert said["store_reason"]
        assert telemetry.metric("weir_store_reachable") == 0
        assert telemetry.metric("weir_ingest_behind_seconds") > 0
        log = "store.lost" if how == "killed" else "store.stalled"
        eventually(lambda: log in telemetry.log.read_text(), "the log says so")
        before = len(sender.acknowledged)
        eventually(lambda: len(sender.acknowledged) > before, "senders are still answered")
        observe_once()
        overview = dashboard.get("/").content.decode()
        assert "The store does not answer" in overview
        assert "the store does not answer it: spans wait in the spool" in overview
        assert dashboard.get("/latency").status_code == 503
        time.sleep(max(0.0, OUTAGE_S - (time.monotonic() - away_s)))  # as long as was asked for
        if how == "killed":
            dsn, process = server()
        else:
            process.send_signal(signal.SIGCONT)
        eventually(lambda: telemetry.readiness()["store"] == "ok", "it says that the store is back", within_s=120)
    finally:
        sender.end()
    eventually(lambda: telemetry.metric("weir_ingest_behind_seconds") == 0, "the spool is worked off", within_s=180)
    observe_once()
    assert "the store does not answer" not in dashboard.get("/").content.decode().lower()
    all_there_once(Store(dsn), sender, began)


def all_there_once(store: Store, sender: Sender, began_ns: int) -> None:
    known = sorted(sender.acknowledged)
    assert known
    for at in range(0, len(known), 1000):
        stored = store.requests.spans_of(known[at : at + 1000])
        assert {trace: len(spans) for trace, spans in stored.items()} == dict.fromkeys(
            known[at : at + 1000], SPANS_OF_A_TRACE
        )
    counted = store.latency.report(Window(began_ns - 10**9, time.time_ns()), {"service": ("checkout",)}).requests
    assert len(known) <= counted <= len(known) + 20, "each trace is one request; the last was never acknowledged"


def test_a_store_that_hangs_is_away_for_a_reader_long_before_a_query_would_be_given_up(
    server: Callable[[], Server],
) -> None:
    dsn, process = server()
    store = Store(dsn, timeout_s=3600)
    assert store.ping()
    process.send_signal(signal.SIGSTOP)
    try:
        store._answered_s = -1e9  # some time has passed
        assert not store.ping()
    finally:
        process.send_signal(signal.SIGCONT)
    eventually(store.ping, "it answers again")
