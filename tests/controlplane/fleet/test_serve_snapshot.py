"""Gateways elsewhere get the policy snapshot over HTTP, as soon as it changes."""

import asyncio
import gzip
import os
import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import transaction
from pytest_django import Settings

from controlplane.fleet.models import PublishedSnapshot, Replica, Tenant, Tier
from controlplane.fleet.serve_snapshot import PATH, SnapshotApplication
from inference.contract import snapshot
from tests.support.stored_pool import stored_pool

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def replica(home: Path) -> Replica:
    with transaction.atomic():
        Tenant.objects.create(name="demo", tier=Tier.objects.create(name="standard"))
        return Replica.objects.create(pool=stored_pool(), name="one", grpc="127.0.0.1:8001")


@pytest.fixture
async def application() -> AsyncIterator[SnapshotApplication]:
    here = SnapshotApplication()
    yield here
    await here.feed.close()


class Caller:
    """Asks the application, and leaves when `left` is set."""

    def __init__(self, application: SnapshotApplication, peer: str = "127.0.0.1") -> None:
        self._application, self._peer = application, peer
        self.left = asyncio.Event()

    async def ask(self, query: str = "", method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body; status 0 where it has left before an answer."""
        sent: list[Mapping[str, Any]] = []
        named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        scope = {
            "type": "http", "method": method, "path": PATH, "query_string": query.encode(), "headers": named,
            "client": (self._peer, 1234),
        }  # fmt: skip
        begun = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> Mapping[str, Any]:
            if begun:
                return begun.pop()
            await self.left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Mapping[str, Any]) -> None:
            sent.append(message)

        await self._application(scope, receive, send)
        if not sent:
            return 0, {}, b""
        given = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return sent[0]["status"], given, sent[1]["body"]


async def test_it_answers_at_once_and_then_with_the_next_change(
    replica: Replica, application: SnapshotApplication, home: Path
) -> None:
    caller = Caller(application)
    status, headers, body = await caller.ask()
    assert (status, body) == (200, (home / "snapshot.json").read_bytes())
    assert (await caller.ask(if_none_match=headers["etag"]))[::2] == (304, b"")
    assert (await caller.ask("wait_s=0.05", if_none_match=headers["etag"]))[0] == 304
    waiting = [asyncio.create_task(caller.ask("wait_s=25", if_none_match=headers["etag"])) for _ in range(3)]
    await asyncio.sleep(0)
    replica.draining = True
    await sync_to_async(replica.save)()
    for status, after, body in await asyncio.gather(*waiting):
        assert status == 200
        assert after["etag"] != headers["etag"]
        assert snapshot.decode(body).pools[0].endpoints[0].draining
    packed = await caller.ask(accept_encoding="gzip, deflate")
    assert (packed[1]["content-encoding"], gzip.decompress(packed[2])) == ("gzip", body)


async def test_a_gateway_that_leaves_is_not_waited_for(replica: Replica, application: SnapshotApplication) -> None:
    caller = Caller(application)
    _, headers, _ = await caller.ask()
    waiting = asyncio.create_task(caller.ask("wait_s=25", if_none_match=headers["etag"]))
    await asyncio.sleep(0)
    caller.left.set()
    assert (await waiting)[0] == 0


async def test_a_process_that_is_told_to_end_answers_who_waits(
    replica: Replica, application: SnapshotApplication
) -> None:
    """Granian ends once every answer is given: gateways would hold it for as long as they wait."""
    loop, server_notified = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, server_notified.set)
    try:
        caller = Caller(application)
        _, headers, _ = await caller.ask()
        waiting = asyncio.create_task(caller.ask("wait_s=25", if_none_match=headers["etag"]))
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(20):
            assert (await waiting)[0] == 304
            await server_notified.wait()
            assert (await caller.ask("wait_s=25", if_none_match=headers["etag"]))[0] == 304, "nor does it wait again"
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


async def test_it_is_for_those_with_the_token(
    replica: Replica, application: SnapshotApplication, settings: Settings
) -> None:
    assert (await Caller(application, "10.0.0.7").ask())[0] == 401, "without a token, for this machine alone"
    settings.CONFIG = settings.CONFIG.model_copy(update={"snapshot_token": "a" * 32})
    far = Caller(application, "10.0.0.7")
    assert [(await far.ask(authorization=given))[0] for given in ("Bearer " + "a" * 32, "Bearer b", "")] == [
        200,
        401,
        401,
    ]
    assert (await Caller(application).ask())[0] == 401


@pytest.mark.parametrize(
    ("query", "method", "status", "said"),
    [
        ("wait_s=soon", "GET", 400, "wait_s='soon' is not a time: send seconds from 0 to 25."),
        ("wait_s=26", "GET", 400, "wait_s='26' is not a time"),
        ("wait_s=nan", "GET", 400, "wait_s='nan' is not a time"),
        ("", "POST", 405, "does not answer to POST. Use GET."),
    ],
)
async def test_a_wrong_question_is_refused(
    replica: Replica, application: SnapshotApplication, query: str, method: str, status: int, said: str
) -> None:
    answer = await Caller(application).ask(query, method)
    assert answer[0] == status
    assert said in answer[2].decode()


async def test_before_anything_is_published_it_says_so(application: SnapshotApplication, home: Path) -> None:
    await sync_to_async(PublishedSnapshot.objects.all().delete)()
    status, headers, body = await Caller(application).ask("wait_s=5")
    assert (status, headers["retry-after"]) == (503, "1")
    assert b"nothing was published yet" in body
