"""A Redis that comes and goes is said once a minute: it wrote two lines each time, without end."""

import asyncio

import pytest
from structlog.testing import capture_logs

from inference.wires.redis import client, url
from inference.wires.redis.client import RedisClient
from inference.wires.redis.pipe import Argument, ReplyError
from tests.support.wait import eventually_async

TIMES = 20


class Flapping(RedisClient):
    """Each second look it is there, and is lost at once."""

    looks = 0

    async def _connect(self) -> None:
        self.looks += 1
        if self.looks > 2 * TIMES:
            await asyncio.Event().wait()
        if self.looks % 2:
            raise OSError("refused")

    async def _lost(self) -> None:
        pass

    def _abort(self) -> None:
        pass

    def restart(self) -> None:
        pass

    @property
    def quiet_since_s(self) -> float:
        return 0.0

    def _send(self, command: tuple[Argument, ...], hurry: bool) -> asyncio.Future[object]:
        answered: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        answered.set_result(b"OK")
        return answered


@pytest.fixture
def redis(monkeypatch: pytest.MonkeyPatch) -> Flapping:
    for name in ("_BACKOFF_FIRST_S", "_MAX_BACKOFF_S", "_REFUSED_PAUSE_S"):
        monkeypatch.setattr(client, name, 0.0)
    return Flapping(url.parse("redis://127.0.0.1:6379"))


async def test_a_server_that_is_lost_and_back_again_and_again(redis: Flapping) -> None:
    with capture_logs() as said:
        redis.start()
        await eventually_async(lambda: redis.looks > 2 * TIMES)
    assert [line["event"] for line in said] == ["redis.lost", "redis.connected"]
    await redis.close()


async def test_one_that_is_full_and_takes_writes_again_and_again(redis: Flapping) -> None:
    redis.up = True
    with capture_logs() as said:
        for reason in ["OOM used"] * TIMES + ["MISCONF no disk"]:
            redis._note_refusal(ReplyError(reason))
            assert redis.standing == f"up: its Redis takes nothing new: {reason}"
            await eventually_async(lambda: not redis.refusal)
    assert [line["event"] for line in said] == ["redis.command_refused", "redis.takes_writes"] * 2
    await redis.close()


async def test_a_loss_that_lasts_is_said_though_there_was_one_a_moment_before(
    redis: Flapping, monkeypatch: pytest.MonkeyPatch
) -> None:
    with capture_logs() as said:
        redis.start()
        await eventually_async(lambda: redis.looks > 2 * TIMES)
        await redis.close()
        monkeypatch.setattr(client, "_SAY_AGAIN_S", 0.0)  # that is over
        redis.looks = 0
        redis.start()
        await eventually_async(lambda: redis.looks > 0)
    assert [line["event"] for line in said].count("redis.lost") > 1
    await redis.close()
