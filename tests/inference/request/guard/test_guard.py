"""Rules of a tenant at the gateway: what passes, what is masked, what is refused; of requests and of answers, also of streams."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import openai
import pytest
from aiohttp import web
from openai import AsyncOpenAI

from inference.app import Gateway
from inference.backends.openai import OpenAIConnector
from inference.backends.port import Event
from inference.contract.lane import KEY_HEADER, OWN_TIER_HEADER, WAITED_FOR
from inference.contract.snapshot import CacheRule, Endpoint, GuardRule, Model, Pool, Route, Tenant, Tier, key_digest
from inference.observability.span_export import SpanExport
from tests.support.gateway.scripted import DONE, KEY, ScriptedBackend, a_snapshot, serve_pools
from tests.support.gateway.trusted import TRUSTED
from tests.support.http_server import serving
from tests.support.servers.saying import Server
from tests.support.wait import eventually_async

CARD, MAIL = "4111 1111 1111 1111", "rita@example.com"
SAID = f"Your card {CARD} and {MAIL} are known."
MASKED = "Your card [card] and [mail] are known."
OTHER_KEY = "weir_key_other"
Opened = Callable[..., Any]
ALL: Any = ("card", "key", "mail")


def rule(name: str = "texts", **fields: Any) -> GuardRule:
    return GuardRule(
        **{"name": f"alice/{name}", "tenant": "alice", "kind": "patterns", "action": "mask", "patterns": ALL} | fields
    )


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opened:
    """`opened(server, *rules)`: a client of alice's of a gateway in front of it; bob has no rules, and `OTHER_KEY`."""

    @asynccontextmanager
    async def begin(
        server: Server | ScriptedBackend, *rules: GuardRule, redis_url: str = "", cache: CacheRule | None = None
    ) -> AsyncIterator[AsyncOpenAI]:
        passes = isinstance(server, Server)
        endpoint = Endpoint("r0", url=server.url if isinstance(server, Server) else "http://127.0.0.1:1/v1")
        pool = Pool("p", "v", "r", "m", "", (endpoint,), protocol="openai", server="other")
        tenants = (Tenant("alice", "standard", (key_digest(KEY),)), Tenant("bob", "standard", (key_digest(OTHER_KEY),)))
        model = Model("m", (Route("p"),), cache=cache or CacheRule())
        snapshot = msgspec.structs.replace(
            a_snapshot(pool), models=(model,), tenants=tenants, tiers=(Tier("standard"), Tier("batch")), guards=rules
        )
        connector = OpenAIConnector if passes else lambda *_, **__: server
        async with serve_pools(connector, snapshot, tmp_path, monkeypatch, redis_url=redis_url) as client:
            yield client

    return begin


async def ask(client: AsyncOpenAI, text: str = "Hello", **options: Any) -> str:
    answer = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}], **options)
    return str(answer.choices[0].message.content)


async def stream(client: AsyncOpenAI, text: str = "Hello") -> str:
    parts = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}], stream=True)
    return "".join([chunk.choices[0].delta.content or "" async for chunk in parts if chunk.choices])


async def is_kept(client: AsyncOpenAI, text: str) -> bool:
    messages: Any = [{"role": "user", "content": text}]
    answer = await client.chat.completions.with_raw_response.create(model="m", messages=messages)
    return answer.headers["x-weir-cache"] == "hit"


async def test_what_is_masked_in_a_request_does_not_reach_the_server(opened: Opened) -> None:
    async with Server("Hi").serving() as server, opened(server, rule()) as client:
        assert await ask(client, SAID) == "Hi"
        parts: Any = [
            {"type": "text", "text": SAID},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{'4' * 16}"}},
        ]
        await client.chat.completions.create(model="m", messages=[{"role": "user", "content": parts}], user=MAIL)
        first, second = server.bodies
        assert first["messages"][0]["content"] == second["messages"][0]["content"][0]["text"] == MASKED
        assert second["user"] == "[mail]" and second["messages"][0]["content"][1] == parts[1]
        await ask(client, "no secrets here")
        assert await ask(client.with_options(api_key=OTHER_KEY), SAID) == "Hi"
        assert server.bodies[-1]["messages"][0]["content"] == SAID, "bob has no rules"


async def test_a_long_request_is_looked_through_too(opened: Opened) -> None:
    async with Server("Hi").serving() as server, opened(server, rule()) as client:
        await ask(client, "word " * 12_000 + SAID)
        assert server.bodies[0]["messages"][0]["content"].endswith(MASKED)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"action": "refuse"}, SAID),
        ({"kind": "length", "action": "refuse", "max_chars": 10}, "x" * 11),
    ],
)
async def test_what_is_refused_gets_nowhere_and_is_kept_nowhere(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], text: str
) -> None:
    traces: list[Any] = []
    monkeypatch.setattr(SpanExport, "submit", lambda _, item: traces.append(item))
    async with Server("Hi").serving() as server, opened(server, rule(**fields)) as client:
        with pytest.raises(openai.PermissionDeniedError, match="alice/texts") as caught:
            await ask(client, text)
        assert caught.value.code == "guard_refused" and not server.bodies
        assert list(traces[-1].guarded) == ["alice/texts refused"] and CARD not in repr(traces)
        root = str(client.base_url).removesuffix("/v1/")
        page = (await client._client.get(f"{root}/metrics")).text
        assert 'weir_gateway_guard_total{outcome="refused",rule="alice/texts"} 1.0' in page
        assert await ask(client) == "Hi"


async def test_what_is_only_reported_passes(opened: Opened) -> None:
    async with Server(SAID).serving() as server, opened(server, rule(action="report", answers=True)) as client:
        assert await ask(client, SAID) == SAID == await stream(client, SAID)
        assert server.bodies[0]["messages"][0]["content"] == SAID


async def test_a_rule_of_another_tier_is_none(opened: Opened) -> None:
    async with Server("Hi").serving() as server, opened(server, rule(action="refuse", tiers=("batch",))) as client:
        assert await ask(client, SAID) == "Hi"


@pytest.mark.parametrize("own_tier", [True, False])
async def test_a_line_of_a_batch_is_held_to_the_rules_of_its_tier(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, own_tier: bool
) -> None:
    secret, made = "l" * 32, Gateway.__init__
    monkeypatch.setattr(
        Gateway, "__init__", lambda self, config: made(self, config.model_copy(update={"lane_token": secret}))
    )
    headers = {"Authorization": f"Bearer {secret}", KEY_HEADER: key_digest(KEY)}
    headers |= {OWN_TIER_HEADER: WAITED_FOR} if own_tier else {}
    async with Server("Hi").serving() as server, opened(server, rule(tiers=("batch",))) as client:
        body = {"model": "m", "messages": [{"role": "user", "content": SAID}]}
        answer = await client._client.post(f"{client.base_url}chat/completions", headers=headers, json=body)
        assert answer.status_code == 200
        assert server.bodies[0]["messages"][0]["content"] == (SAID if own_tier else MASKED)


async def test_a_prompt_in_numbers_is_refused_where_it_would_have_to_be_read(opened: Opened) -> None:
    async with Server("Hi").serving() as server, opened(server, rule()) as client:
        with pytest.raises(openai.PermissionDeniedError):
            await client.completions.create(model="m", prompt=[1, 2, 3])


@pytest.mark.parametrize("size", [1, 3, 8, 500])
async def test_an_answer_is_masked_whole_and_streaming_however_it_is_cut(opened: Opened, size: int) -> None:
    async with Server(SAID, size).serving() as server, opened(server, rule(answers=True)) as client:
        assert await ask(client) == MASKED == await stream(client)
        raw = await httpx2.AsyncClient(verify=TRUSTED).post(
            f"{client.base_url}chat/completions",
            headers={"Authorization": f"Bearer {KEY}"},
            json={"model": "m", "stream": True, "messages": [{"role": "user", "content": "Hi"}]},
        )
        assert raw.text.endswith("data: [DONE]\n\n") and '"finish_reason":"stop"' in raw.text.replace(" ", "")
        tokens = [part["choices"][0].get("logprobs") for part in map(json.loads, raw.text.split("data: ")[1:-1])]
        assert "1111" not in raw.text and "rita" not in raw.text, "not token by token either"
        assert None in tokens


async def test_an_answer_is_refused_before_and_within_its_stream(opened: Opened) -> None:
    refuse = rule(answers=True, action="refuse")
    async with Server(SAID).serving() as server, opened(server, refuse) as client:
        with pytest.raises(openai.PermissionDeniedError, match="The answer has"):
            await ask(client)
        given = ""
        server.gate.clear()
        with pytest.raises(openai.APIError, match="alice/texts"):
            parts = await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "Hello"}], stream=True
            )
            async for chunk in parts:
                given += chunk.choices[0].delta.content or ""
                server.gate.set()
        assert given and SAID.startswith(given) and "4111" not in given


async def test_answers_that_the_gateway_writes_are_held_to_it_too(opened: Opened) -> None:
    events = [*(Event(SAID[at : at + 4]) for at in range(0, len(SAID), 4)), DONE]
    async with opened(ScriptedBackend(events), rule(answers=True)) as client:
        assert await ask(client) == MASKED == await stream(client)


async def test_no_answer_leaks_through_the_cache_to_whoever_has_other_rules(opened: Opened, redis_url: str) -> None:
    shared = CacheRule("always", scope="all")
    question = f"What is on file? {id(opened)}"
    async with Server(SAID).serving() as server:
        async with opened(server, rule(answers=True), redis_url=redis_url, cache=shared) as client:
            bob = client.with_options(api_key=OTHER_KEY)
            assert await ask(bob, question) == SAID
            await eventually_async(lambda: is_kept(bob, question))
            assert await ask(client, question) == MASKED, "bob's is not for alice"
            await eventually_async(lambda: is_kept(client, question))
            assert await ask(bob, question) == SAID, "nor hers for him"
            assert [await ask(client, question) for _ in range(2)] == [MASKED] * 2
        async with opened(server, redis_url=redis_url, cache=shared) as client:
            assert await ask(client, question) == SAID, "nor what the rule made of it, once it is gone"


async def test_a_masked_request_meets_the_answer_to_its_masked_text(opened: Opened, redis_url: str) -> None:
    async with (
        Server("Hi").serving() as server,
        opened(server, rule(), redis_url=redis_url, cache=CacheRule("always")) as client,
    ):
        unique = f"{id(server)}"

        await eventually_async(lambda: is_kept(client, f"{unique} {CARD}"))
        sent = len(server.bodies)
        await ask(client, f"{unique} 5555 5555 5555 4444")
        assert len(server.bodies) == sent


class Moderation:
    """OpenAI's API of moderations: it flags texts with `bad`."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.status = 200

    async def judge(self, request: web.Request) -> web.Response:
        self.texts.append((await request.json())["input"])
        return web.json_response({"results": [{"flagged": "bad" in self.texts[-1]}]}, status=self.status)


@asynccontextmanager
async def moderated(opened: Opened, server: Server, **fields: Any) -> AsyncIterator[tuple[AsyncOpenAI, Moderation]]:
    moderation = Moderation()
    async with serving(web.post("/v1/moderations", moderation.judge)) as url:
        rules = rule(kind="moderation", action="refuse", patterns=(), url=f"{url}/v1/moderations", timeout_ms=60_000)
        async with opened(server, msgspec.structs.replace(rules, **fields)) as client:
            yield client, moderation


async def test_a_moderation_elsewhere_judges_requests_and_answers(opened: Opened) -> None:
    long = "fine words " * 600
    async with (
        Server(f"{long} bad").serving() as server,
        moderated(opened, server, answers=True) as (client, moderation),
    ):
        with pytest.raises(openai.PermissionDeniedError, match="The request has"):
            await ask(client, "a bad thing")
        assert not server.bodies
        with pytest.raises(openai.PermissionDeniedError, match="The answer has"):
            await ask(client)
        with pytest.raises(openai.APIError, match="The answer has"):
            await stream(client)
        assert sum(map(len, moderation.texts)) > 2 * len(long), "in windows"
        server.tokens = ("fine",)
        assert await ask(client) == "fine" == await stream(client)


@pytest.mark.parametrize("is_open", [True, False])
async def test_a_moderation_that_fails_is_open_or_closed(opened: Opened, is_open: bool) -> None:
    async with Server("Hi").serving() as server, moderated(opened, server, is_open=is_open) as (client, moderation):
        moderation.status = 500
        if is_open:
            assert await ask(client) == "Hi"
        else:
            with pytest.raises(openai.InternalServerError, match="does not answer"):
                await ask(client)
        assert bool(server.bodies) is is_open


async def test_with_a_rule_that_cannot_be_obeyed_nothing_passes(opened: Opened) -> None:
    async with Server("Hi").serving() as server, opened(server, rule(patterns=())) as client:
        with pytest.raises(openai.PermissionDeniedError):
            await ask(client)
        assert await ask(client.with_options(api_key=OTHER_KEY)) == "Hi"
