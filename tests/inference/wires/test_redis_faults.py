"""Stalls and failovers of a real Redis, as the gateway's cache sees them."""

import asyncio
import math
import os
import secrets
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from deploy.local.ports import LOOPBACK, free_port
from deploy.local.process import Managed
from deploy.local.redis import Redis, redis
from inference.core.events import Choice, WholeAnswer
from inference.request.exact.cache import Cache, Lookup
from inference.wires.redis import RedisClient, client, open_redis
from tests.support.start import Start
from tests.support.wait import eventually_async

ANSWER = WholeAnswer((Choice("one", "stop"),), 1, 1)


def is_kept(lookup: Lookup) -> bool:
    return lookup.answer is not None and lookup.answer.choices == ANSWER.choices


class Forwarder:
    """Forwards new connections to `port`, which may change; existing ones stay."""

    def __init__(self, server: Redis) -> None:
        self._password = server.password
        self.port = server.port
        self.connections = 0
        self.url = ""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.answers = asyncio.Event()  # while it is cleared, what Redis sends waits here
        self.answers.set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._take, LOOPBACK, 0)
        self.url = f"redis://:{self._password}@{LOOPBACK}:{self._server.sockets[0].getsockname()[1]}"

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        their_reader, their_writer = await asyncio.open_connection(LOOPBACK, self.port)
        for source, sink, gate in ((reader, their_writer, None), (their_reader, writer, self.answers)):
            task = asyncio.ensure_future(self._copy(source, sink, gate))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    @staticmethod
    async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter, gate: asyncio.Event | None) -> None:
        while data := await source.read(65_536):
            if gate is not None:
                await gate.wait()
            sink.write(data)
        sink.close()

    def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()


@pytest.fixture
async def forwarder(own_redis: tuple[Redis, Managed]) -> AsyncIterator[Forwarder]:
    here = Forwarder(own_redis[0])
    await here.start()
    yield here
    here.stop()


@pytest.fixture
async def connection(forwarder: Forwarder) -> AsyncIterator[RedisClient]:
    here = open_redis(forwarder.url)
    here.start()
    await eventually_async(lambda: here.up)
    yield here
    await here.close()


async def test_all_lookups_of_one_stall_count_once(
    own_redis: tuple[Redis, Managed], connection: RedisClient, forwarder: Forwarder
) -> None:
    cache, process = Cache(connection), own_redis[1]
    os.killpg(process.pid, signal.SIGSTOP)
    try:
        at_once = await asyncio.gather(*(cache.get(b"%d" % number, 0.02) for number in range(8)))
        one_by_one = [await cache.get(b"x", 0.02) for _ in range(5)]
        assert all(lookup.skipped for lookup in (*at_once, *one_by_one))
        assert connection.up
    finally:
        os.killpg(process.pid, signal.SIGCONT)
    assert not (await cache.get(b"x", 5)).skipped
    assert forwarder.connections == 1


async def test_a_redis_that_is_always_late_is_given_up(
    connection: RedisClient, forwarder: Forwarder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_HUNG_AFTER_S", math.inf)  # a busy machine must not end it for the other reason
    cache = Cache(connection)
    for number in range(3):
        assert connection.up, f"after {number} stalls"
        forwarder.answers.clear()
        assert (await cache.get(b"x", 0.01)).skipped
        forwarder.answers.set()
        if connection.up:
            await connection.send(b"PING")  # so the late answer is here, and that stall is over
    assert not connection.up


async def test_a_redis_that_hangs_is_given_up_after_a_second(
    own_redis: tuple[Redis, Managed], connection: RedisClient
) -> None:
    cache, process = Cache(connection), own_redis[1]
    os.killpg(process.pid, signal.SIGSTOP)
    try:
        began_s = asyncio.get_running_loop().time()
        while connection.up:
            assert (await cache.get(b"x", 0.02)).skipped
        assert asyncio.get_running_loop().time() - began_s >= 1
    finally:
        os.killpg(process.pid, signal.SIGCONT)
    await eventually_async(lambda: connection.up)


async def test_after_a_failover_it_writes_to_the_new_master(
    own_redis: tuple[Redis, Managed],
    connection: RedisClient,
    forwarder: Forwarder,
    start: Start,
    tmp_path: Path,
) -> None:
    """The old master becomes a read-only replica, and its name moves to another server some time later."""
    cache, key = Cache(connection), secrets.token_bytes(8)
    assert await cache.put(key, ANSWER, 60)
    await connection.send(b"REPLICAOF", LOOPBACK, free_port())
    assert not await cache.put(key, ANSWER, 60)
    await eventually_async(lambda: forwarder.connections == 2)
    await eventually_async(lambda: connection.up)
    assert is_kept(await cache.get(key, 5)), "it still reads"
    began_s, writes = asyncio.get_running_loop().time(), [await cache.put(key, ANSWER, 60) for _ in range(20)]
    assert not any(writes)
    assert forwarder.connections <= 3 + asyncio.get_running_loop().time() - began_s, "not one for each refusal"
    new = redis(free_port(), tmp_path / "new", password=own_redis[0].password)
    start(new.command)
    forwarder.port = new.port

    async def written() -> bool:
        return await cache.put(key, ANSWER, 60)

    await eventually_async(written)
    assert is_kept(await cache.get(key, 5))
