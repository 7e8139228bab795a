"""What clients get, servers are sent and spans say while routing rules and steps of a ladder are in force."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import psutil
import pytest
from openai import APIStatusError, AsyncOpenAI

from inference.contract.gateway_signals import GatewaySignals, ModelSignals
from inference.contract.lane import KEY_HEADER, LATE, OWN_TIER_HEADER, WAITED_FOR
from inference.contract.rules import NO_OVERLAY, Degradation, Overlay, Route, RouteRule
from inference.contract.snapshot import Endpoint, Key, Pool, Tenant, key_digest
from inference.core.events import Event, Usage
from inference.observability.span_encoding import encode_trace
from inference.observability.spans import Trace
from tests.support.gateway.scripted import KEY, ScriptedBackend, Servers, a_snapshot, serve_pools
from tests.support.wait import eventually_async

ENOUGH = (Event("word "), Event("word", finish_reason="stop", usage=Usage(5, 2)))
EDGE_KEY = "weir_key_edge"
FROM_EDGE = {"x-weir-region": "edge", "Authorization": f"Bearer {EDGE_KEY}"}
"""Of a key that may say where its requests come from."""
CUT = (Event("word "), Event("word", finish_reason="length", usage=Usage(5, 2)))


async def never() -> None:
    await asyncio.Event().wait()


class Site:
    """A gateway in front of a large and a small pool, and the traces of its requests."""

    def __init__(
        self, client: AsyncOpenAI, traces: list[Trace], large: ScriptedBackend, small: ScriptedBackend
    ) -> None:
        self.client, self.traces, self.large, self.small = client, traces, large, small

    async def ask(self, text: str = "", **options: Any) -> Any:
        """The raw answer to a chat that nobody has sent before, unless `text` is given."""
        options = {"temperature": 0, **options}
        messages: Any = [{"role": "user", "content": text or secrets.token_hex(8)}]
        return await self.client.chat.completions.with_raw_response.create(model="m", messages=messages, **options)

    async def refused(self, text: str = "") -> APIStatusError:
        with pytest.raises(APIStatusError) as caught:
            await self.ask(text)
        return caught.value

    async def has_cache(self) -> bool:
        url = str(self.client.base_url).replace("/v1/", "/readyz")
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return bool((await answer.json())["cache"] == "up")

    async def signals(self) -> GatewaySignals:
        url = str(self.client.base_url).replace("/v1/", "/signals")
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return msgspec.json.decode(await answer.read(), type=GatewaySignals)


@asynccontextmanager
async def site(
    folder: Path,
    patch: pytest.MonkeyPatch,
    *rules: RouteRule,
    overlay: Overlay = NO_OVERLAY,
    redis_url: str = "",
    answer: tuple[Event, ...] = ENOUGH,
    replicas: tuple[str, ...] = ("r0",),
) -> AsyncIterator[Site]:
    large, small = ScriptedBackend(answer), ScriptedBackend(answer)
    pools = [
        Pool(
            name,
            f"{name}-variant",
            "r",
            "m",
            "",
            tuple(Endpoint(replica, url=f"http://{name}/v1") for replica in replicas),
            protocol="openai",
        )
        for name in ("large", "small")
    ]
    snapshot = msgspec.structs.replace(a_snapshot(*pools), rules=rules, overlay=overlay)
    edge = Tenant("edge", "standard", (), (Key(key_digest(EDGE_KEY), names_region=True),))
    snapshot = msgspec.structs.replace(snapshot, tenants=(*snapshot.tenants, edge))
    traces: list[Trace] = []
    patch.setattr("inference.observability.span_export.SpanExport.submit", lambda _, trace: traces.append(trace))
    servers = Servers(large=large, small=small)
    async with serve_pools(lambda *_, **__: servers, snapshot, folder, patch, redis_url=redis_url) as client:
        here = Site(client, traces, large, small)
        if redis_url:
            await eventually_async(here.has_cache)
        yield here


def degraded(**action: Any) -> Overlay:
    step = Degradation("m", "standard", 1, "less", rule="m-ladder", **action)
    return Overlay(3, "d1", int(time.time() * 1000) + 3_600_000, degradation=(step,))


async def test_a_rule_decides_pool_cap_and_priority_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = (
        RouteRule("edge/near", "m", regions=("edge",), routes=(Route("small"),), max_output_tokens=9, priority=1),
        RouteRule("edge/long", "m", min_prompt_tokens=100, routes=(Route("small"),)),
    )
    async with site(tmp_path, monkeypatch, *rules) as given:
        plain = await given.ask()
        near = await given.ask(extra_headers=FROM_EDGE, max_tokens=50)
        long = await given.ask("word " * 100)
        assert "x-weir-policy-rule" not in plain.headers
        assert (near.headers["x-weir-policy-rule"], long.headers["x-weir-policy-rule"]) == ("edge/near", "edge/long")
        assert [question.max_tokens for question in given.small.questions] == [9, None]
        assert [call.priority for call in given.small.calls] == [1, 2]
        assert len(given.large.calls) == 1
        assert [(trace.policy_rule, trace.pool) for trace in given.traces] == [
            ("", "large"), ("edge/near", "small"), ("edge/long", "small"),
        ]  # fmt: skip


async def test_a_request_comes_from_where_its_key_may_say_or_where_its_model_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = RouteRule("edge/near", "m", regions=("edge",), routes=(Route("small"),))
    async with site(tmp_path, monkeypatch, away) as given:
        await given.ask(extra_headers=FROM_EDGE)
        await given.ask(extra_headers={"x-weir-region": "edge"})
        assert [(trace.caller_region, trace.pool) for trace in given.traces] == [("edge", "small"), ("r", "large")]


async def test_a_line_that_can_wait_is_said_and_counted_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_LANE_TOKEN", token := "t" * 32)
    by_lane = {"Authorization": f"Bearer {token}", KEY_HEADER: key_digest(KEY)}
    of_client = {KEY_HEADER: key_digest(KEY), OWN_TIER_HEADER: LATE}
    async with site(tmp_path, monkeypatch) as given:
        for headers in (by_lane, by_lane | {OWN_TIER_HEADER: LATE}, by_lane | {OWN_TIER_HEADER: WAITED_FOR}, of_client):
            await given.ask(extra_headers=headers)
        assert [trace.can_wait for trace in given.traces] == [True, True, False, False]
        assert [b"weir.can_wait" in encode_trace(trace, 0) for trace in given.traces] == [True, True, False, False]
        pool = (await given.signals()).pools["large"]
        assert (pool.arrived, pool.lines) == (4, 2)


async def test_what_a_client_sends_again_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with site(tmp_path, monkeypatch) as given:
        sent: list[dict[str, str]] = [
            {},
            {"x-stainless-retry-count": "2"},
            {"idempotency-key": "a"},
            FROM_EDGE | {"idempotency-key": "a"},
        ]
        for headers in [*sent, sent[2]]:
            await given.ask(extra_headers=headers)
        assert [trace.repeated for trace in given.traces] == [False, True, False, False, False]
        plain, again, first, of_another_tenant, same = [trace.idempotency_key for trace in given.traces]
        assert (plain, again) == (0, 0)
        assert first == same != of_another_tenant > 0


async def test_a_rules_deadline_is_kept_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with site(tmp_path, monkeypatch, RouteRule("quick/all", "m", deadline_ms=80), answer=(never,)) as given:  # type: ignore[arg-type]
        late = await given.refused()
        assert (late.status_code, late.code) == (504, "deadline_exceeded")
        assert "deadline of rule 'quick/all', 0.08 s" in late.message
        assert late.response.headers["x-weir-policy-rule"] == "quick/all"


async def test_a_smaller_variant_serves_while_it_has_a_replica(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with site(tmp_path, monkeypatch, overlay=degraded(variant="small-variant")) as given:
        raw = await given.ask()
        assert raw.headers["x-weir-degraded"] == "less"
        assert (len(given.small.calls), given.traces[-1].pool, given.traces[-1].degraded) == (1, "small", "less")
    gone = degraded(variant="nothing-variant")
    async with site(tmp_path, monkeypatch, overlay=gone) as given:
        raw = await given.ask()
        assert "x-weir-degraded" not in raw.headers, "the step has changed nothing"
        assert (len(given.large.calls), given.traces[-1].degraded) == (1, "")


async def test_only_requests_that_want_more_are_shortened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with site(tmp_path, monkeypatch, overlay=degraded(max_output_tokens=16), answer=CUT) as given:
        for wanted, is_degraded in ((None, True), (400, True), (16, False), (3, False)):
            raw = await given.ask("", **({"max_tokens": wanted} if wanted else {}))
            assert ("x-weir-degraded" in raw.headers) == is_degraded
            assert given.large.questions[-1].max_tokens == min(wanted or 16, 16)
            assert "weir" not in (raw.parse().model_extra or {}), (
                "it does not say how to go on unless the step is partial"
            )


@pytest.mark.parametrize("stream", [False, True])
async def test_a_partial_answer_says_how_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, stream: bool
) -> None:
    overlay = degraded(max_output_tokens=2, partial=True)
    async with site(tmp_path, monkeypatch, overlay=overlay, answer=CUT) as given:
        raw = await given.ask(stream=stream)
        if stream:
            said = [extra["weir"] async for chunk in raw.parse() if "weir" in (extra := chunk.model_extra or {})]
            assert len(said) == 1
            [note] = said
        else:
            note = raw.parse().model_extra["weir"]
        way_on = {"append": "message", "add_generation_prompt": False, "continue_final_message": True}
        assert note == {"degraded": "less", "max_output_tokens": 2, "continue": way_on}
        more = {name: value for name, value in note["continue"].items() if name != "append"}
        messages = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "word word"}]
        await given.client.chat.completions.create(model="m", messages=messages, extra_body=more)  # type: ignore[arg-type]
        assert given.large.questions[-1].continue_final_message is True
    async with site(tmp_path, monkeypatch, overlay=overlay, answer=ENOUGH) as given:
        raw = await given.ask()
        assert "weir" not in (raw.parse().model_extra or {}), "an answer that was not cut is whole"


async def test_a_server_that_cannot_continue_is_not_promised_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site(tmp_path, monkeypatch, overlay=degraded(max_output_tokens=2, partial=True), answer=CUT) as given:
        parameters: dict[str, Any] = {**given.large.capabilities.parameters, "continue_final_message": "refused"}
        given.large.capabilities = given.large.capabilities._replace(parameters=parameters)
        assert (await given.ask()).parse().model_extra["weir"]["continue"] is None
        completion = await given.client.completions.create(model="m", prompt="Once", temperature=0)
        assert (completion.model_extra or {})["weir"]["continue"] == {"append": "prompt"}


async def test_cached_answers_are_given_whatever_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    text = secrets.token_hex(8)
    async with site(tmp_path, monkeypatch, redis_url=redis_url) as given:
        await given.ask(text)
    steps: list[dict[str, Any]] = [
        {"max_output_tokens": 1},
        {"pool": "small"},
        {"cached_only": True, "retry_after_s": 7},
    ]
    for action in steps:
        async with site(tmp_path, monkeypatch, overlay=degraded(**action), redis_url=redis_url) as given:
            again = await given.ask(text)
            assert (again.headers["x-weir-cache"], "x-weir-degraded" in again.headers) == ("hit", False)
            assert given.traces[-1].variant == "large-variant"
            if "cached_only" not in action:
                other = secrets.token_hex(8)
                first, second = [await given.ask(other) for _ in range(2)]
                assert (first.headers["x-weir-cache"], second.headers["x-weir-cache"]) == ("miss", "hit")
                assert second.headers["x-weir-degraded"] == "less"
                continue
            error = await given.refused()
            assert error.status_code == 503
            assert error.response.headers["retry-after"] == "7"
            assert error.body == {
                "message": "Of this tier, 'm' answers only what is in its cache at present, and this request is not. "
                "Send it again in 7 s.",
                "type": "server_error", "param": None, "code": "degraded", "reason": "policy", "degraded": "less", "policy": "m-ladder",
                "retry_after_s": 7.0,
            }  # fmt: skip
            assert given.large.calls == given.small.calls == []


async def test_a_shed_request_counts_as_asked_of_its_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with site(tmp_path, monkeypatch, overlay=degraded(shed=True, retry_after_s=2.5)) as given:
        error = await given.refused()
        assert (error.status_code, error.response.headers["retry-after"]) == (503, "3")
        assert error.response.headers["x-weir-degraded"] == "less"
        assert (error.code, error.body["reason"]) == ("degraded", "policy")  # type: ignore[index]
        trace = given.traces[-1]
        assert (trace.pool, trace.degraded, trace.shed_reason, trace.status) == ("large", "less", "policy", "error")
        said = await given.signals()
        assert (said.pools["large"].arrived, said.pools["large"].shed, said.pools["large"].answered) == (1, 1, 0)
        assert said.models["m"]["standard"] == ModelSignals(arrived=1, shed=1, degraded=1)
        assert said.snapshot.overlay_version == 3


@pytest.mark.parametrize(("in_s", "told"), [(90, "90"), (-1, "1"), (None, "1")])
async def test_clients_of_an_empty_pool_are_told_when_its_first_replica_is_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_s: int | None, told: str
) -> None:
    now_ms = int(time.time() * 1000)
    awaited = {} if in_s is None else {"large": now_ms + in_s * 1_000}
    overlay = Overlay(3, "d1", now_ms + 3_600_000, awaited=awaited)
    async with site(tmp_path, monkeypatch, overlay=overlay, replicas=()) as given:
        error = await given.refused()
        assert (error.status_code, error.code) == (503, "service_unavailable")
        assert error.response.headers["retry-after"] == told
        assert ("one is starting" in error.message) is (told != "1")
        assert (await given.signals()).pools["large"].arrived == 1, "it starts a replica"


async def test_signals_count_what_pools_and_tiers_were_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    rule = RouteRule("small/all", "m", tiers=("standard",), routes=(Route("small"),))
    async with site(tmp_path, monkeypatch, rule, redis_url=redis_url) as given:
        text = secrets.token_hex(8)
        for _ in range(2):
            await given.ask(text)
        with pytest.raises(APIStatusError):
            await given.ask(top_p=7)
        said = await given.signals()
        assert said.models == {"m": {"standard": ModelSignals(arrived=2, answered=2, cached=1)}}
        small, large = said.pools["small"], said.pools["large"]
        assert (small.arrived, small.answered, small.input_tokens, small.output_tokens) == (1, 1, 5, 2)
        assert (small.queue_wait_count, small.queue_wait_s_sum, small.waiting, small.in_flight) == (1, 0, 0, 0)
        assert (large.arrived, large.answered) == (0, 0)
        replica = small.replicas["r0"]
        assert (replica.up, replica.draining, replica.in_flight, replica.waiting, replica.kv_use) == (
            True,
            False,
            0,
            None,
            None,
        )
        assert (said.requests, said.snapshot.version) == (3, 1)
        assert abs(said.at_ms - time.time() * 1000) < 60_000
        assert abs(said.started_ms - psutil.Process().create_time() * 1000) < 2_000, "the gateway runs in this process"
        assert said.cpu_s > 0


async def test_signals_are_for_those_who_may_read_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with site(tmp_path, monkeypatch) as given, aiohttp.ClientSession() as session:
        url = str(given.client.base_url).replace("/v1/", "/signals")
        forwarded = {"Authorization": f"Bearer {KEY}", "X-Forwarded-For": "10.0.0.1"}
        statuses = [(await session.request(method, url, headers=sent)).status for method, sent in (
            ("GET", forwarded), ("POST", {}), ("GET", {}),
        )]  # fmt: skip
        assert statuses == [401, 405, 200]
        assert (await given.signals()).gateway == "127.0.0.1:0"
