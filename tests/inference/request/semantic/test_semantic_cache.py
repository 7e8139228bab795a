"""The semantic cache from end to end, on a real Redis: what it serves, to whom, and that nothing of it fails a request."""

import asyncio
import os
import secrets
import signal
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
import pytest
from openai import APIStatusError, AsyncOpenAI
from redis.asyncio import Redis as Client

from deploy.local.process import Managed
from deploy.local.redis import Redis
from inference.backends.port import CallInfo, Embeddings, Usage
from inference.contract.snapshot import CacheRule, Endpoint, Model, Pool, Route, Snapshot, Tenant, key_digest
from inference.contract.snapshot_parts import SemanticRule
from inference.core.backend_errors import FailedError
from inference.core.events import Event
from inference.core.question import Question
from inference.request.semantic import lookup
from tests.support.gateway.scripted import KEY, ScriptedBackend, ScriptedStream, Servers, a_snapshot, serve_pools
from tests.support.wait import eventually_async

OTHER_KEY = "another-tenant's"
SURE = 20.0  # percent: a bound that few labels certify
RULE = SemanticRule("on", "e", wrong_percent=SURE, embed_ms=10_000)
NAMES = [f"{first}{second}" for first in "bcdfglmnprst" for second in ("alia", "evia", "ostan", "uria", "inia")]


class Chat(ScriptedBackend):
    """Answers each text with what `answer` makes of it."""

    def __init__(self, answer: Callable[[str], str]) -> None:
        super().__init__(())
        self.answer = answer

    async def generate(self, question: Question, call: CallInfo) -> ScriptedStream:
        self.questions.append(question)
        text = question.messages[-1].content
        assert isinstance(text, str)
        steps = (Event(self.answer(text)), Event(finish_reason="stop", usage=Usage(10, 2)))
        self.streams.append(ScriptedStream(steps, 1))
        return self.streams[-1]


class Embed(ScriptedBackend):
    """Texts with the same words, but for the shortest, have nearly the same vector."""

    seed = 0
    error: Exception | None = None

    async def embed(self, question: Question, call: CallInfo) -> Embeddings:
        self.questions.append(question)
        if self.error is not None:
            raise self.error
        return Embeddings(tuple(self.vector(str(text)) for text in question.input), Usage(5))

    def vector(self, text: str) -> bytes:
        numbers = [0.0] * 256
        for word in text.lower().replace("'s", "").strip("?").split():
            if len(word) > 3 and word not in ("please", "tell", "what"):
                numbers[crc32(word.encode(), self.seed) % 256] += 1.0
        return struct.pack("<256f", *numbers)


class Bed:
    """A gateway with a chat model `m` and an embedder `e`."""

    def __init__(self, client: AsyncOpenAI, chat: Chat, embed: Embed, semantic: lookup.Semantic) -> None:
        self.client, self.chat, self.embed, self.semantic = client, chat, embed, semantic

    async def ask(self, text: str, key: str = KEY, **options: Any) -> tuple[str, str]:
        """The cache's outcome and the text, once all has been learnt from it."""
        messages = [{"role": "user", "content": text}]
        given: dict[str, Any] = {"model": "m", "temperature": 0, "messages": messages, **options}
        client = self.client.with_options(api_key=key)
        raw = await client.chat.completions.with_raw_response.create(**given)
        await self.learnt()
        return raw.headers["x-weir-cache"], raw.parse().choices[0].message.content or ""

    async def learnt(self) -> None:
        await asyncio.gather(*self.semantic._learning)
        await self.semantic.labels.read(10)

    async def teach(self, pairs: int, names: list[str] = NAMES) -> None:
        for name in names[:pairs]:
            await self.ask(f"What is the capital of {name.title()}?")
            await self.ask(f"what is {name.title()}'s capital")

    async def ready(self) -> str:
        page: Any = await self.client.with_options(base_url=str(self.client.base_url).removesuffix("v1/")).get(
            "/readyz", cast_to=object
        )
        return str(page["semantic_cache"])

    async def mark(self, body: dict[str, str], key: str = KEY) -> int:
        client = self.client.with_options(api_key=key)
        try:
            await client.post("/cache/not-same", body=body, cast_to=object)
        except APIStatusError as error:
            return error.status_code
        return 200

    @property
    def thresholds(self) -> list[float | None]:
        return [route.evidence.threshold for route in self.semantic.labels.routes.values()]


def capital(text: str) -> str:
    name = next(word for word in text.replace("'s", "").replace("?", "").lower().split() if word in NAMES)
    return f"{name.upper()}-CITY"


def snapshot(rule: SemanticRule = RULE, **cache: Any) -> Snapshot:
    pools = tuple(
        Pool(name, name, "r", name, "", (Endpoint("r0", url=f"http://127.0.0.1:{port}/v1"),), protocol="openai")
        for port, name in enumerate(("m", "e"), 1)
    )
    version = secrets.token_hex(4)  # so that no test meets the answers of another
    given = a_snapshot(*pools, prompt_version=version, cache=CacheRule(semantic=rule, **cache))
    other = Tenant("bob", "standard", (key_digest(OTHER_KEY),))
    given = msgspec.structs.replace(given, tenants=(*given.tenants, other))
    return msgspec.structs.replace(given, models=(*given.models, Model("e", (Route("e"),), prompt_version=version)))


@asynccontextmanager
async def bed(
    folder: Path,
    patch: pytest.MonkeyPatch,
    redis_url: str,
    given: Snapshot | None = None,
    answer: Callable[[str], str] = capital,
) -> AsyncIterator[Bed]:
    chat, embed, made = Chat(answer), Embed(()), list[lookup.Semantic]()

    def semantic(*parts: Any) -> lookup.Semantic:
        made.append(lookup.Semantic(*parts))
        return made[-1]

    patch.setattr("inference.app.Semantic", semantic)
    servers = Servers(m=chat, e=embed)
    async with serve_pools(lambda *_, **__: servers, given or snapshot(), folder, patch, redis_url=redis_url) as client:
        await eventually_async(lambda: client.models.list())
        yield Bed(client, chat, embed, made[0] if made else None)  # type: ignore[arg-type]


async def test_once_labels_have_shown_that_it_may_a_similar_request_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    async with bed(tmp_path, monkeypatch, redis_url) as it:
        await it.teach(1)
        wanted = next(iter(it.semantic.labels.routes.values())).evidence.labels_wanted
        assert it.thresholds == [None]
        await it.teach(wanted, NAMES[1:])
        assert it.thresholds[0] is not None
        inferences, outcomes = len(it.chat.questions), []
        for name in NAMES[:20]:  # a part of them is generated, to see whether it is still right
            outcome, text = await it.ask(f"Please tell me what is {name.title()}'s capital?")
            assert text == f"{name.upper()}-CITY"
            outcomes.append(outcome.partition(";")[0])
        served = outcomes.count("semantic")
        assert served > 0, (it.semantic.counts, it.thresholds, outcomes)
        assert len(it.chat.questions) == inferences + len(outcomes) - served


async def test_a_client_says_that_an_answer_was_not_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    async with bed(tmp_path, monkeypatch, redis_url) as it:
        await it.teach(45)
        served = ("", "", "")

        async def a_hit() -> bool:
            nonlocal served
            for name in NAMES[:10]:
                text = (
                    f"{secrets.choice(('hi', 'hello', 'hey'))} please tell me what is {name.title()}'s capital, thanks"
                )
                raw = await it.client.chat.completions.with_raw_response.create(
                    model="m", temperature=0, messages=[{"role": "user", "content": text}]
                )
                if raw.headers["x-weir-cache"].startswith("semantic; entry="):
                    served = (text, raw.headers["x-request-id"], raw.headers["x-weir-cache"])
                    return True
                await it.learnt()
            return False

        await eventually_async(a_hit)
        text, request_id, _ = served
        (route,) = it.semantic.labels.routes.values()
        labels = route.evidence.labels
        assert await it.mark({"request_id": request_id}, OTHER_KEY) == 404
        assert await it.mark({"request": request_id}) == 400
        assert await it.mark({"request_id": request_id}) == 200
        assert await it.mark({"request_id": request_id}) == 404
        await it.learnt()
        assert (route.evidence.labels, route.evidence.wrong[0]) == (labels + 1, 1)
        entry = served[2].partition("entry=")[2].partition(";")[0]
        for _ in range(10):
            raw = await it.client.chat.completions.with_raw_response.create(
                model="m", temperature=0, messages=[{"role": "user", "content": text}]
            )
            assert entry not in raw.headers["x-weir-cache"]
            await it.learnt()


@pytest.mark.parametrize(
    ("cache", "across_tenants", "shared"),
    [({}, True, False), ({"scope": "all"}, False, False), ({"scope": "all"}, True, True)],
)
async def test_tenants_share_similar_answers_only_where_both_rules_say_so(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    redis_url: str,
    cache: dict[str, Any],
    across_tenants: bool,
    shared: bool,
) -> None:
    rule = msgspec.structs.replace(RULE, across_tenants=across_tenants)
    async with bed(tmp_path, monkeypatch, redis_url, snapshot(rule, **cache)) as it:
        await it.teach(45)
        asked = [await it.ask(f"please tell me what is {name.title()}'s capital?", OTHER_KEY) for name in NAMES[:30]]
        assert any(outcome.startswith("semantic") for outcome, _ in asked) is shared


async def test_in_shadow_nothing_is_served_and_evidence_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    rule = msgspec.structs.replace(RULE, mode="shadow")
    async with bed(tmp_path, monkeypatch, redis_url, snapshot(rule)) as it:
        await it.teach(45)
        assert it.thresholds[0] is not None
        assert {(await it.ask(f"tell me what is {name.title()}'s capital"))[0] for name in NAMES[:10]} == {"miss"}


async def test_answers_that_differ_keep_it_in_shadow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    async with bed(tmp_path, monkeypatch, redis_url, answer=lambda _: secrets.token_hex(4)) as it:
        await it.teach(40)
        assert it.thresholds == [None]
        assert it.semantic.counts["m", "label_wrong"] > 30


async def test_what_the_verifier_refuses_is_no_candidate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    async with bed(tmp_path, monkeypatch, redis_url, answer=lambda text: text) as it:
        await it.ask("how do I enable dark mode in the editor")
        await it.ask("how do I disable dark mode in the editor")
        await it.ask("how do I thaw dark mode in the editor")
        assert it.semantic.counts["m", "refused_opposite"] >= 1
        assert it.semantic.counts["m", "label_wrong"] == it.semantic.counts["m", "label_right"] == 0


async def test_an_embedder_that_gives_other_vectors_under_its_name_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    async with bed(tmp_path, monkeypatch, redis_url) as it:
        await it.teach(45)
        it.embed.seed = 7
        outcomes = [(await it.ask(f"tell me what is the capital of {name.title()} please"))[0] for name in NAMES[:40]]
        assert it.semantic.embedders.changed == 1
        assert "miss" in outcomes[32:]
        assert it.thresholds[-1] is None


@pytest.mark.parametrize(
    "error", [FailedError("it broke", "internal"), RuntimeError("a defect")], ids=["server", "defect"]
)
async def test_an_embedder_that_fails_fails_no_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str, error: Exception
) -> None:
    async with bed(tmp_path, monkeypatch, redis_url) as it:
        await it.teach(45)
        it.embed.error = error
        outcomes = {(await it.ask(f"please tell me what is {name.title()}'s capital?"))[0] for name in NAMES[:5]}
        assert outcomes == {"miss"}


async def test_redis_that_is_killed_fails_no_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_redis: tuple[Redis, Managed]
) -> None:
    redis, process = own_redis
    async with bed(tmp_path, monkeypatch, redis.url) as it:
        await it.teach(45)
        assert it.thresholds[0] is not None
        os.killpg(process.pid, signal.SIGKILL)
        for name in NAMES[:5]:
            outcome, text = await it.ask(f"please tell me what is {name.title()}'s capital?")
            assert (outcome, text) == ("skipped", f"{name.upper()}-CITY")


async def test_redis_that_is_full_fails_no_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_redis: tuple[Redis, Managed]
) -> None:
    redis, _ = own_redis
    async with bed(tmp_path, monkeypatch, redis.url) as it, Client.from_url(redis.url) as client:
        await it.teach(45)
        await client.config_set("maxmemory-policy", "noeviction")
        await client.config_set("maxmemory", 1)
        for name in NAMES[50:55]:
            assert (await it.ask(f"please tell me what is {name.title()}'s capital?"))[1] == f"{name.upper()}-CITY"


async def test_off_costs_no_look_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str) -> None:
    async with bed(tmp_path, monkeypatch, redis_url, snapshot(SemanticRule())) as it:
        await it.teach(1)
        assert (it.embed.questions, dict(it.semantic.counts)) == ([], {})
        assert await it.ready() == "off"


@pytest.mark.parametrize(
    ("rule", "with_redis", "said"),
    [
        (RULE, True, "up"),
        (RULE, False, "off: there is no Redis"),
        (msgspec.structs.replace(RULE, embedder="lost"), True, "off: no embedder is known for m"),
    ],
)
async def test_readiness_says_whether_similar_requests_are_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str, rule: SemanticRule, with_redis: bool, said: str
) -> None:
    async with bed(tmp_path, monkeypatch, redis_url if with_redis else "", snapshot(rule)) as it:

        async def answered() -> bool:
            assert await it.client.chat.completions.create(model="m", messages=[{"role": "user", "content": "balia"}])
            return await it.ready() == said

        await eventually_async(answered)
