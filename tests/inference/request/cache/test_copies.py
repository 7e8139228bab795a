"""Copies of cached answers in the gateway's memory: how long, how much and for whom; and that no purge is missed."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from openai import AsyncOpenAI
from redis.asyncio import Redis as Client

from deploy.local.process import Managed
from deploy.local.redis import Redis
from inference.contract import snapshot_file
from inference.contract.snapshot_parts import SemanticRule
from inference.core.events import Choice, Event, WholeAnswer
from inference.request.exact import copies
from inference.request.exact.copies import Copies
from tests.support.gateway.cached import Bed, stored, up
from tests.support.gateway.scripted import DONE, ScriptedBackend, serve_pools
from tests.support.gateway.similar import OTHER_KEY, snapshot
from tests.support.wait import eventually_async

NOW_S = 1_000_000.0
ANSWER = WholeAnswer((Choice("one", "stop"),), 1, 1, expires_s=int(NOW_S) + 60)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Its one member is the time."""
    now = [NOW_S]
    for name in ("time", "monotonic"):
        monkeypatch.setattr(copies, name, lambda: now[0])
    return now


@pytest.mark.parametrize(
    ("known", "lives_s"),
    [
        ({}, copies.LIVES_S),
        ({"expires_s": int(NOW_S) + 1}, 1),
        ({"fresh_until_s": int(NOW_S) + 1}, 1),
        ({"expires_s": 0}, 0),
        ({"fresh_until_s": int(NOW_S)}, 0),
    ],
    ids=["seconds", "about to end", "about to be stale", "its end is not known", "stale"],
)
def test_a_copy_lives_for_seconds_and_never_longer_than_the_answer(
    clock: list[float], known: dict[str, int], lives_s: float
) -> None:
    kept = Copies()
    kept.add(b"key", msgspec.structs.replace(ANSWER, **known), "alice", 1)
    assert (kept.get(b"key") is not None) is (lives_s > 0)
    clock[0] += lives_s
    assert kept.get(b"key") is None


def test_a_tenant_has_its_share_all_have_a_bound_and_all_of_it_comes_back(clock: list[float]) -> None:
    kept, size = Copies(), copies.MAX_TENANT_BYTES // 4

    def fill(tenant: str) -> int:
        for number in range(5):
            kept.add(f"{tenant}{number}".encode(), ANSWER, tenant, size - 1024)
        return sum(kept.get(f"{tenant}{number}".encode()) is not None for number in range(5))

    tenants = copies.MAX_BYTES // copies.MAX_TENANT_BYTES
    assert [fill(f"tenant-{number}-") for number in range(tenants + 1)] == [4] * tenants + [0]
    assert kept.size == copies.MAX_BYTES
    clock[0] += copies.LIVES_S
    assert fill("another-") == 4
    assert kept.size == copies.MAX_TENANT_BYTES
    small = Copies()
    for number in range(5_000):
        small.add(number.to_bytes(4), ANSWER, "alice", 0)
    assert sum(small.get(number.to_bytes(4)) is not None for number in range(5_000)) == 4_096


def test_one_that_was_dropped_leaves_its_room_when_it_would_have_ended(clock: list[float]) -> None:
    kept = Copies()
    kept.add(b"key", ANSWER, "alice", 1)
    kept.drop(b"key")
    assert kept.get(b"key") is None and kept.size > 0
    kept.add(b"key", ANSWER, "alice", 1)
    clock[0] += copies.LIVES_S
    kept.add(b"another", ANSWER, "alice", 1)
    assert kept.size == 1 + 1024 and kept.get(b"another") is not None


async def test_a_copy_saves_the_look_up_and_is_met_by_no_other_tenant_and_after_no_purge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_redis: tuple[Redis, Managed]
) -> None:
    url = own_redis[0].url
    server = ScriptedBackend(*((Event(str(number)), DONE) for number in range(20)))
    given = snapshot(SemanticRule())
    monkeypatch.setattr(copies, "LIVES_S", 1e9)  # so that only what is asserted here ends one
    async with (
        serve_pools(lambda *_, **__: server, given, tmp_path, monkeypatch, redis_url=url) as client,
        Client.from_url(url) as redis,
    ):
        it, other = Bed(client), Bed(client.with_options(api_key=OTHER_KEY))
        other.text = it.text
        await eventually_async(lambda: up(client))
        assert (await it.ask())[0] == "miss"
        await stored(it, "0")
        looked_up = (await redis.info("commandstats"))["cmdstat_get"]["calls"]
        assert [(await it.ask())[:2] for _ in range(5)] == [("hit", "0")] * 5
        assert (await redis.info("commandstats"))["cmdstat_get"]["calls"] == looked_up
        assert (await other.ask())[:2] == ("miss", "1")
        assert (await it.ask("no-cache"))[:2] == ("bypass", "2")
        await stored(it, "2")
        rule, answered = given.models[0].cache, 3
        for version in range(2, 6):
            model = msgspec.structs.replace(given.models[0], cache=msgspec.structs.replace(rule, purges=version))
            newer = msgspec.structs.replace(given, models=(model, *given.models[1:]), version=version)
            snapshot_file.write(tmp_path / "snapshot.json", newer)
            await eventually_async(lambda: _obeys(client, version))  # noqa: B023
            assert (await it.ask())[:2] == ("miss", str(answered))
            await stored(it, str(answered))
            assert (await it.ask())[:2] == ("hit", str(answered))
            answered += 1


async def _obeys(client: AsyncOpenAI, version: int) -> bool:
    page: Any = await client.with_options(base_url=str(client.base_url).removesuffix("v1/")).get(
        "/readyz", cast_to=object
    )
    return bool(page["policy_version"] == version)
