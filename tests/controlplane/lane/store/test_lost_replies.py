"""A worker runs lines whose claim was committed without its hearing of it, and those that run alone, without waiting."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError, close_old_connections

from controlplane.lane import worker as worker_module
from controlplane.lane.core import states
from controlplane.lane.models import Batch
from controlplane.lane.objects.folder import Folder
from controlplane.lane.store import claims
from controlplane.lane.store.claims import Claimed
from controlplane.lane.worker import Worker
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


def run_to_the_end(batch: Batch, objects: Folder, server: EchoServer) -> None:
    async def run() -> None:
        stopping = asyncio.Event()
        worker = Worker(objects, server.url.removesuffix("/v1"), "token", LINES, claims.LEASE)
        running = asyncio.create_task(worker.run(stopping))
        worker.wake()

        async def has_ended() -> bool:
            return await asyncio.to_thread(status_of, batch.pk) == states.FINALIZING

        try:
            await eventually_async(has_ended, within_s=60)
        finally:
            stopping.set()
            await running

    asyncio.run(run())
    do_chores(objects)
