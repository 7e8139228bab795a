"""An inference that begins beside the look-up of a similar request: a hit cancels it, a miss keeps it, and nobody sees which before."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from openai import InternalServerError

from controlplane.telemetry.ledger.row import LedgerRow
from inference.contract.lane import KEY_HEADER, OWN_TIER_HEADER, WAITED_FOR
from inference.contract.snapshot import Endpoint, GuardRule, Price, Snapshot, Tier, key_digest
from inference.core import otlp
from inference.core.backend_errors import FailedError
from inference.core.semantic.beside import MIN_SEEN, HitShare
from inference.core.semantic.evidence import Label
from tests.support.gateway.scripted import KEY
from tests.support.gateway.similar import NAMES, OTHER_KEY, RULE, Bed, bed, capital, snapshot
from tests.support.http_server import serving
from tests.support.telemetry.otlp_payloads import rows_in
from tests.support.wait import eventually_async

FREE = Price(0.0, 0.0)
LANE_TOKEN = "t" * 32
KNOWN, NEW = NAMES[:10], NAMES[50:]


def priced(given: Snapshot | None = None) -> Snapshot:
    given = given or snapshot()
    pools = tuple(msgspec.structs.replace(pool, prices=(FREE,)) for pool in given.pools)
    return msgspec.structs.replace(given, pools=pools)


@asynccontextmanager
async def ready(
    folder: Path, patch: pytest.MonkeyPatch, redis_url: str, given: Snapshot | None = None, **options: Any
) -> AsyncIterator[Bed]:
    """Similar requests are served, most look-ups were misses, and the chat's server says that nobody waits there."""
    patch.setattr("inference.request.semantic.lookup.random.random", lambda: 0.99)  # no hit is generated to compare
    async with bed(folder, patch, redis_url, given or priced(), **options) as it:
        it.chat.waits = 0.0
        await it.teach(1)
        (route,) = it.semantic.labels.routes.values()
        for number in range(route.evidence.labels_wanted):
            it.semantic.labels.add(route.name, Label(0.99, wrong=False), f"{number}")
        await it.teach(len(KNOWN), KNOWN)
        assert it.thresholds[0] is not None
        it.semantic.shares["m"] = misses()
        await eventually_async(lambda: said(it) is not None)
        it.encoded.clear()
        it.chat.held, it.embed.held = asyncio.Event(), asyncio.Event()
        yield it


def misses(hits: int = 0) -> HitShare:
    share = HitShare()
    for number in range(MIN_SEEN):
        share.add(number < hits)
    return share


def said(it: Bed) -> float | None:
    load = it.pools()["m"].replicas[0].load.signals
    return load.waiting if load is not None else None


def similar(name: str) -> str:
    return f"please tell me what is {name.title()}'s capital?"


async def both_run(it: Bed, text: str, **options: Any) -> "asyncio.Task[tuple[str, str]]":
    """A request whose inference and whose look-up are under way."""
    asked, embedded = len(it.chat.questions), len(it.embed.questions)
    task = asyncio.ensure_future(it.ask(text, **options))
    await eventually_async(lambda: len(it.chat.questions) == asked + 1 and len(it.embed.questions) == embedded + 1)
    return task


def release(*events: asyncio.Event | None) -> None:
    for event in events:
        assert event is not None
        event.set()


def counted(it: Bed) -> tuple[int, ...]:
    tally = it.pools()["m"].tally
    return tally.arrived, tally.answered, tally.waits, tally.shed, tally.output_tokens


async def idle(it: Bed) -> None:
    await eventually_async(lambda: it.pools()["m"].in_flight == 0 and it.pools()["m"].replicas[0].load.own == 0)


def row_of(it: Bed) -> LedgerRow:
    """Of the only request for the chat."""
    (row,) = (row for row in rows_in([otlp.request(it.encoded, "weir.gateway", ())]) if row.model == "m")
    assert sum(row.stages.values()) + row.unattributed_ns == row.e2e_ns
    return row


async def test_a_hit_cancels_it_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str) -> None:
    async with ready(tmp_path, monkeypatch, redis_url) as it:
        before, failed = counted(it), it.pools()["m"].replicas[0].health.state
        task = await both_run(it, similar(KNOWN[0]))
        assert not task.done()
        release(it.embed.held)
        outcome, text = await task
        assert (outcome.partition(";")[0], text) == ("semantic", f"{KNOWN[0].upper()}-CITY")
        await idle(it)
        assert it.chat.streams[-1].cancelled
        assert (counted(it), it.pools()["m"].replicas[0].health.state) == (before, failed)
        assert it.semantic.beside == {("m", "overtaken"): 1}
        row = row_of(it)
        assert (row.status, row.cache_outcome, row.replica, row.cost_usd) == ("ok", "semantic", "", 0.0)
        assert row.cached_tokens is None  # a server's own cache had no part in it
        assert [(each.replica, each.outcome, each.model_ns) for each in row.attempts] == [("r0", "cancelled", 0)]
        assert row.stages["model"] == 0 < row.stages["cache"]
        assert not row.unmeasured
        assert (await it.ask(similar(KNOWN[0])))[0].startswith("semantic")  # what was cancelled is not kept


async def test_a_miss_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str) -> None:
    async with ready(tmp_path, monkeypatch, redis_url) as it:
        arrived, answered, *_ = counted(it)
        task = await both_run(it, similar(NEW[0]))
        assert counted(it)[:2] == (arrived, answered)
        asked = len(it.chat.questions)
        release(it.embed.held)
        await eventually_async(lambda: it.semantic.beside == {("m", "kept"): 1})
        assert counted(it)[:2] == (arrived + 1, answered)
        release(it.chat.held)
        assert await task == ("miss", f"{NEW[0].upper()}-CITY")
        assert len(it.chat.questions) == asked
        assert counted(it)[:2] == (arrived + 1, answered + 1)
        row = row_of(it)
        assert [(each.replica, each.outcome) for each in row.attempts] == [("r0", "ok")]
        assert row.cached_tokens == 4
        assert (row.replica, row.cost_usd, row.stages["model"] > row.stages["cache"]) == ("r0", 0.0, True)
        assert (await it.ask(similar(NEW[0])))[0] == "hit"
        it.chat.held = asyncio.Event()
        assert (await it.ask("Hi " + similar(NEW[0])))[0].startswith("semantic")


@pytest.mark.parametrize(("name", "outcome"), [(KNOWN[0], "semantic"), (NEW[0], "miss")])
async def test_a_stream_has_nothing_before_the_look_up_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str, name: str, outcome: str
) -> None:
    async with ready(tmp_path, monkeypatch, redis_url) as it:
        messages: Any = [{"role": "user", "content": similar(name)}]
        create = it.client.chat.completions.with_raw_response.create
        task = asyncio.ensure_future(create(model="m", temperature=0, messages=messages, stream=True))
        await eventually_async(lambda: it.pools()["m"].replicas[0].load.pending == 0 < it.pools()["m"].in_flight)
        assert not task.done()  # its first token is there
        release(it.embed.held)
        await eventually_async(lambda: bool(it.semantic.beside))
        release(it.chat.held)
        raw = await task
        chunks = [chunk async for chunk in raw.parse()]
        assert raw.headers["x-weir-cache"].partition(";")[0] == outcome
        assert "".join(it.choices[0].delta.content or "" for it in chunks if it.choices) == f"{name.upper()}-CITY"


@pytest.mark.parametrize("error", [FailedError("it broke", "internal"), RuntimeError("a defect")])
async def test_an_embedder_that_fails_leaves_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str, error: Exception
) -> None:
    async with ready(tmp_path, monkeypatch, redis_url) as it:
        it.embed.error = error
        task = await both_run(it, similar(KNOWN[0]))
        asked = len(it.chat.questions)
        release(it.embed.held, it.chat.held)
        assert await task == ("miss", f"{KNOWN[0].upper()}-CITY")
        assert (len(it.chat.questions), it.chat.streams[-1].cancelled) == (asked, False)


async def test_its_whole_answer_waits_for_no_look_up_and_is_no_label(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    async with ready(tmp_path, monkeypatch, redis_url) as it:
        (route,) = it.semantic.labels.routes.values()
        labels, hits = route.evidence.labels, it.semantic.counts["m", "served"]
        task = await both_run(it, similar(KNOWN[0]))
        release(it.chat.held)
        await eventually_async(lambda: it.semantic.beside == {("m", "first"): 1})
        release(it.embed.held)  # what is learnt from it embeds again
        assert await task == ("miss", f"{KNOWN[0].upper()}-CITY")
        assert (route.evidence.labels, it.semantic.counts["m", "served"]) == (labels, hits)
        assert (await it.ask(similar(KNOWN[0])))[0] == "hit"


@pytest.mark.parametrize(("name", "outcome"), [(KNOWN[0], "semantic"), (NEW[0], "")])
async def test_where_it_fails_a_hit_is_served_and_a_miss_has_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str, name: str, outcome: str
) -> None:
    async with ready(tmp_path, monkeypatch, redis_url) as it:
        monkeypatch.setattr(it.chat, "answer", lambda _: (_ for _ in ()).throw(FailedError("it broke", "internal")))
        asked, task = len(it.chat.questions), asyncio.ensure_future(it.ask(similar(name)))
        await eventually_async(lambda: len(it.chat.questions) > asked and it.pools()["m"].in_flight == 0)
        assert not task.done()
        release(it.embed.held)
        if outcome:
            assert (await task)[0].startswith(outcome)
        else:
            with pytest.raises(InternalServerError):
                await task


async def test_a_client_that_leaves_ends_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str) -> None:
    async with ready(tmp_path, monkeypatch, redis_url) as it:
        before = counted(it)
        task = await both_run(it, similar(KNOWN[0]))
        task.cancel()
        await idle(it)
        await eventually_async(lambda: it.pools()["e"].in_flight == 0)
        assert it.chat.streams[-1].cancelled
        assert (counted(it), it.semantic.beside) == (before, {("m", "left"): 1})
        row = row_of(it)
        assert (row.status, row.http_status, row.error_stage) == ("cancelled", 499, "cache")
        assert [(each.replica, each.outcome) for each in row.attempts] == [("r0", "cancelled")]


async def test_an_identical_request_joins_it_and_keeps_it_after_a_hit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    async with ready(tmp_path, monkeypatch, redis_url) as it:
        arrived, answered, *_ = counted(it)
        first = await both_run(it, similar(KNOWN[0]))
        second = asyncio.ensure_future(it.ask(similar(KNOWN[0])))
        await eventually_async(lambda: counted(it)[0] == arrived + 1)  # it has joined
        release(it.embed.held)
        assert (await first)[0].startswith("semantic")
        assert not it.chat.streams[-1].cancelled
        release(it.chat.held)
        assert await second == ("coalesced", f"{KNOWN[0].upper()}-CITY")
        assert counted(it)[:2] == (arrived + 1, answered + 1)


async def test_a_hit_counts_once_against_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    given = msgspec.structs.replace(priced(), tiers=(Tier("standard", tokens_per_minute=10**9),))
    async with ready(tmp_path, monkeypatch, redis_url, given) as it:

        async def left() -> int:
            """Before this request, which is in the exact cache."""
            text: Any = [{"role": "user", "content": f"what is {KNOWN[0].title()}'s capital"}]
            raw = await it.client.chat.completions.with_raw_response.create(model="m", temperature=0, messages=text)
            assert raw.headers["x-weir-cache"] == "hit"
            return int(raw.headers["x-ratelimit-remaining-tokens"])

        before = await left()
        task = await both_run(it, similar(KNOWN[0]))
        release(it.embed.held)
        await task
        await idle(it)
        after = await left()
        assert before - after == 2 * (after - await left())


async def test_a_hit_ends_the_connection_to_its_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    taught, begun, left = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def chat(request: web.Request) -> web.Response:
        try:
            if taught.is_set():
                begun.set()
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            left.set()
            raise
        text = capital((await request.json())["messages"][0]["content"])
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 10, "completion_tokens": 2}
        return web.json_response({"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage})

    async def models(_: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "m"}]})

    async def page(_: web.Request) -> web.Response:
        return web.Response(text='vllm:num_requests_waiting{model_name="m"} 0\n')

    async with serving(
        web.post("/v1/chat/completions", chat), web.get("/v1/models", models), web.get("/metrics", page)
    ) as url:
        endpoint, given = Endpoint("r0", url=f"{url}/v1", metrics=f"{url}/metrics"), priced()
        chats, *others = given.pools
        pools = (msgspec.structs.replace(chats, endpoints=(endpoint,), server="vllm"), *others)
        given = msgspec.structs.replace(given, pools=pools)
        async with ready(tmp_path, monkeypatch, redis_url, given, real=True) as it:
            taught.set()
            task = asyncio.ensure_future(it.ask(similar(KNOWN[0])))
            await begun.wait()
            release(it.embed.held)
            assert (await task)[0].startswith("semantic")
            await left.wait()
            await idle(it)


def changes(it: Bed) -> Iterator[tuple[str, dict[str, str]]]:
    """One reason after the other for which it may not begin."""
    state, shares = it.pools()["m"], it.semantic.shares
    free = state.pool
    for what, price in (("no price", None), ("a price", Price(0.0, 0.001))):
        state.pool = msgspec.structs.replace(free, prices=(price,) if price is not None else ())
        yield what, {}
    state.pool = free
    for what, share in (("unknown hits", HitShare()), ("mostly hits", misses(MIN_SEEN // 2 + 1))):
        shares["m"] = share
        yield what, {}
    shares["m"] = misses()
    yield "no model", {"cache-control": "only-if-cached"}
    yield "a line", {"Authorization": f"Bearer {LANE_TOKEN}", KEY_HEADER: key_digest(KEY), OWN_TIER_HEADER: WAITED_FOR}
    yield "a guard", {"Authorization": f"Bearer {OTHER_KEY}"}
    state.admission.in_flight += state.admission.max_in_flight // 2
    yield "half full", {}
    state.admission.in_flight = 0
    it.chat.waits = 1.0
    yield "a queue", {}
    it.chat.waits = None
    state.replicas[0].load.signals = None
    yield "unknown load", {}


async def test_it_does_not_begin_where_that_may_cost_more_than_it_brings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    monkeypatch.setenv("WEIR_LANE_TOKEN", LANE_TOKEN)
    guard = GuardRule("bob/all", "bob", "patterns", "mask", answers=True, patterns=("card",))
    shared = snapshot(msgspec.structs.replace(RULE, across_tenants=True), scope="all")
    given = msgspec.structs.replace(priced(given=shared), guards=(guard,))
    async with ready(tmp_path, monkeypatch, redis_url, given) as it:
        release(it.embed.held, it.chat.held)
        for name, (what, headers) in zip(KNOWN, changes(it), strict=True):
            await eventually_async(lambda: said(it) == it.chat.waits)
            embedded = len(it.embed.questions)
            await it.ask(similar(name), extra_headers=headers)
            assert (len(it.embed.questions), it.semantic.beside) == (embedded + 1, {}), what
