"""Answers that are given after their time to live, while one request makes a new one: with the official client, on a real Redis."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import msgspec
import openai
import pytest

from inference.contract import snapshot_file
from inference.contract.snapshot import CacheRule, Snapshot
from inference.core.events import Event
from inference.observability.span_export import Item, SpanExport
from inference.observability.spans import Trace
from inference.request import answer
from inference.request.exact import cache
from tests.support.gateway.cached import Bed, stored, up
from tests.support.gateway.scripted import DONE, ScriptedBackend, a_snapshot, serve_pools
from tests.support.wait import eventually_async

RULE = CacheRule(ttl_s=100, stales_s={"chat": 50}, coalesce=False)


class StaleBed(Bed):
    """Its model answers the second request once `made` is set."""

    def __init__(
        self, client: openai.AsyncOpenAI, server: ScriptedBackend, given: Snapshot, patch: pytest.MonkeyPatch
    ) -> None:
        super().__init__(client)
        self.server, self.given, self._patch = server, given, patch
        self.made = asyncio.Event()
        self.traces = list[Trace]()
        self._began_s = float(int(time.time()))  # whole seconds, to which others are added without rounding
        self.after(0)

    def after(self, seconds: int) -> None:
        self._patch.setattr(cache, "time", lambda: self._began_s + seconds)
        self._patch.setattr(answer, "time", SimpleNamespace(time=lambda: self._began_s + seconds))


@pytest.fixture
async def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str) -> AsyncIterator[StaleBed]:
    def submit(_: SpanExport, item: Item) -> None:
        if isinstance(item, Trace):
            it.traces.append(item)

    monkeypatch.setattr(SpanExport, "submit", submit)
    server = ScriptedBackend((Event("0"), DONE), (lambda: it.made.wait(), Event("1"), DONE), (Event("2"), DONE))
    given = a_snapshot(cache=RULE, prompt_version=secrets.token_hex(4))
    async with serve_pools(lambda *_, **__: server, given, tmp_path, monkeypatch, redis_url=redis_url) as client:
        it = StaleBed(client, server, given, monkeypatch)
        await eventually_async(lambda: up(client))
        assert (await it.ask())[0] == "miss"
        await stored(it, "0")
        yield it


async def test_a_stale_answer_is_given_while_one_request_makes_a_new_one(bed: StaleBed) -> None:
    assert await bed.ask() == ("hit", "0", "0")
    bed.after(101)
    first = len(bed.traces)
    for _ in range(5):
        assert await bed.ask() == ("hit; stale", "0", "101")
    await eventually_async(lambda: len(bed.server.calls) == 2)
    bed.made.set()
    await stored(bed, "1")
    assert (await bed.ask())[:2] == ("hit", "1")
    assert len(bed.server.calls) == 2
    hit, refresh = bed.traces[first], next(it for it in bed.traces if it.can_wait)
    assert [it.can_wait for it in bed.traces].count(True) == 1
    assert refresh.caller == (hit.context.trace_id, hit.id)
    assert (refresh.tenant, refresh.status, refresh.output_tokens, refresh.outcome) == (hit.tenant, "ok", 2, "")


async def test_it_is_not_given_for_longer_nor_to_who_wants_a_fresh_one(bed: StaleBed) -> None:
    bed.made.set()
    bed.after(101)
    assert (await bed.ask("only-if-cached"))[:2] == ("hit; stale", "0")
    assert len(bed.server.calls) == 1  # and asks no model
    assert (await bed.ask("max-age=1000, no-store"))[:2] == ("miss", "1")


async def test_a_refresh_that_fails_leaves_the_answer(bed: StaleBed) -> None:
    bed.server._answers = (*bed.server._answers[:1], RuntimeError("broken"))
    bed.after(101)
    for _ in range(2):
        failed = len([it for it in bed.traces if it.status == "error"])
        assert (await bed.ask())[:2] == ("hit; stale", "0")
        await eventually_async(lambda: len([it for it in bed.traces if it.status == "error"]) > failed)  # noqa: B023


async def test_a_purge_beats_a_stale_answer_and_the_one_that_is_being_made(bed: StaleBed, tmp_path: Path) -> None:
    bed.after(101)
    assert (await bed.ask())[:2] == ("hit; stale", "0")
    await eventually_async(lambda: len(bed.server.calls) == 2)
    model = msgspec.structs.replace(bed.given.models[0], cache=msgspec.structs.replace(RULE, purges=1))
    snapshot_file.write(tmp_path / "snapshot.json", msgspec.structs.replace(bed.given, models=(model,), version=2))

    async def obeyed() -> bool:
        try:
            return (await bed.ask("only-if-cached"))[0] == ""
        except openai.APIStatusError as error:
            return error.status_code == 504

    await eventually_async(obeyed)
    assert (await bed.ask())[:2] == ("miss", "2")
    await stored(bed, "2")
    bed.made.set()
    await eventually_async(lambda: any(it.can_wait for it in bed.traces))
    assert (await bed.ask())[1] == "2"
