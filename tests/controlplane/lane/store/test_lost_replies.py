"""A worker runs lines whose claim was committed without its hearing of it, and those that run alone, without waiting."""

import asyncio
import errno
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.db import DatabaseError, close_old_connections

from controlplane.lane import worker as worker_module
from controlplane.lane.core import states
from controlplane.lane.models import Batch, Worker
from controlplane.lane.objects.folder import Folder
from controlplane.lane.objects.port import Place
from controlplane.lane.store import claims
from controlplane.lane.store.claims import Claimed
from tests.support.lane.model_server import EchoServer
from tests.support.lane.stored import begun, do_chores
from tests.support.wait import eventually_async

pytestmark = [pytest.mark.processes, pytest.mark.django_db(transaction=True)]
LINES = 3


@pytest.fixture
def server() -> Iterator[EchoServer]:
    model = EchoServer().start()
    yield model
    model.stop()


def status_of(batch: int) -> str:
    try:
        return Batch.objects.get(pk=batch).status
    finally:
        close_old_connections()


def test_lines_whose_claim_had_no_reply_are_given_back(
    home: Path, server: EchoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects, claim, lost = Folder(home / "lane"), claims.claim, list[Claimed]()

    def without_reply(*arguments: Any, **named: Any) -> list[Claimed]:
        claimed = claim(*arguments, **named)
        if claimed and not lost:
            lost.extend(claimed)
            raise DatabaseError("server closed the connection unexpectedly")
        return claimed

    monkeypatch.setattr(claims, "claim", without_reply)
    batch = begun(objects, LINES)
    run_to_the_end(batch, objects, server)
    assert len(lost) == LINES and set(server.asked.values()) == {1}
    batch.refresh_from_db()
    assert batch.completed == LINES


def test_what_cannot_be_written_is_kept_for_longer_than_a_lease(
    home: Path, server: EchoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects, leases = Folder(home / "lane"), list[datetime]()
    append, lease = objects.append, timedelta(seconds=0.5)

    def full(*arguments: Any) -> Place:
        leases.append(Worker.objects.get().leased_until)
        if len(leases) <= 3:
            raise OSError(errno.EROFS, "Read-only file system")
        return append(*arguments)

    monkeypatch.setattr(objects, "append", full)
    batch = begun(objects, LINES)
    run_to_the_end(batch, objects, server, lease)
    assert leases == sorted(set(leases)), "it is renewed"
    batch.refresh_from_db()
    assert (batch.completed, set(server.asked.values())) == (LINES, {1})


def timers_to(port: int) -> set[str]:
    """Of the kernel's, for connections to it: 02 is of one with signs of life."""
    rows = [row.split() for row in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    return {row[5][:2] for row in rows if row[2].endswith(f":{port:04X}") and row[3] == "01"}


def test_the_kernel_asks_whether_a_gateway_that_says_nothing_is_there(home: Path, server: EchoServer) -> None:
    timers = set[str]()

    async def look() -> None:
        await eventually_async(lambda: server.running == 1)
        timers.update(timers_to(urlsplit(server.url).port or 0))
        server.let_go()

    objects = Folder(home / "lane")
    server.hold()
    run_to_the_end(begun(objects, 1), objects, server, meanwhile=look)
    assert timers == {"02"}


def test_lines_that_run_alone_follow_each_other_without_a_pause(
    home: Path, server: EchoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "POLL_S", 600.0)
    objects = Folder(home / "lane")
    batch = begun(objects, LINES)
    batch.lines.update(deaths=states.ALONE_FROM)
    run_to_the_end(batch, objects, server)
    batch.refresh_from_db()
    assert batch.completed == LINES


async def nothing() -> None: ...


def run_to_the_end(
    batch: Batch,
    objects: Folder,
    server: EchoServer,
    lease: timedelta = claims.LEASE,
    meanwhile: Callable[[], Awaitable[None]] = nothing,
) -> None:
    async def run() -> None:
        stopping = asyncio.Event()
        worker = worker_module.Worker(objects, server.url.removesuffix("/v1"), "token", LINES, lease)
        running = asyncio.create_task(worker.run(stopping))
        worker.wake()

        async def has_ended() -> bool:
            return await asyncio.to_thread(status_of, batch.pk) == states.FINALIZING

        try:
            await meanwhile()
            await eventually_async(has_ended, within_s=60)
        finally:
            stopping.set()
            await running

    asyncio.run(run())
    do_chores(objects)
