"""A gateway with a chat model and one that embeds, for answers of similar requests, in the test's process, on a real Redis."""

import asyncio
import json
import secrets
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from zlib import crc32

import httpx2
import msgspec
import pytest
from openai import APIStatusError, AsyncOpenAI

from inference.backends.credentials import Credentials
from inference.backends.fleet import Fleet, PoolState
from inference.backends.openai import OpenAIConnector
from inference.backends.port import CallInfo, Embeddings, Usage
from inference.contract.snapshot import CacheRule, Endpoint, Model, Pool, Route, Snapshot, Tenant, key_digest
from inference.contract.snapshot_parts import SemanticRule
from inference.core.events import Event, Head
from inference.core.question import Question
from inference.observability.span_encoding import encode_trace
from inference.observability.span_export import Item, SpanExport
from inference.observability.spans import Trace
from inference.request.semantic import lookup
from inference.request.semantic.store import NO_REDIS
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
        self.held: asyncio.Event | None = None  # each answer's second event waits for it

    async def generate(self, question: Question, call: CallInfo) -> ScriptedStream:
        self.questions.append(question)
        text = question.messages[-1].content
        assert isinstance(text, str)
        held = (self.held.wait,) if self.held is not None else ()
        steps = (Event(self.answer(text)), *held, Event(finish_reason="stop", usage=Usage(10, 2, 4)))
        self.streams.append(ScriptedStream(steps, 1))
        return self.streams[-1]


class Embed(ScriptedBackend):
    """Texts with the same words, but for the shortest, have nearly the same vector."""

    seed = 0
    error: Exception | None = None
    held: asyncio.Event | None = None

    async def embed(self, question: Question, call: CallInfo) -> Embeddings:
        self.questions.append(question)
        if self.held is not None:
            await self.held.wait()
        if self.error is not None:
            raise self.error
        return Embeddings(tuple(self.vector(str(text)) for text in question.input), Usage(5))

    def vector(self, text: str) -> bytes:
        numbers = [0.0] * 256
        for word in text.lower().replace("'s", "").strip("?").split():
            if len(word) > 3 and word not in ("please", "tell", "what"):
                numbers[crc32(word.encode(), self.seed) % 256] += 1.0
        return struct.pack("<256f", *numbers)


class Whole:
    """An answer of a server with OpenAI's API, in one piece."""

    waiting = False
    awaited_since_s = 0.0
    head = Head(False, ((b"content-type", b"application/json"),))

    def __init__(self, document: dict[str, Any], finish_reason: str) -> None:
        self._events = [Event(raw=json.dumps(document).encode(), finish_reason=finish_reason, usage=Usage(10, 2))]

    async def sent(self) -> None: ...

    async def next(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def cancel(self) -> None: ...


class PassingChat(Chat):
    """The same, handed on as the server has it."""

    passes = True

    async def generate(self, query: Any, call: CallInfo) -> Any:
        self.questions.append(query)
        message = {"role": "assistant", "content": self.answer(query.document["messages"][-1]["content"])}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        document = {
            "id": secrets.token_hex(4),
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [choice],
        }
        return Whole(document, "stop")


class PassingEmbed(Embed):
    passes = True

    async def generate(self, query: Any, call: CallInfo) -> Any:
        self.questions.append(query)
        if self.error is not None:
            raise self.error
        vectors = [struct.unpack("<256f", self.vector(text)) for text in query.document["input"]]
        data = [{"object": "embedding", "index": at, "embedding": it} for at, it in enumerate(vectors)]
        return Whole({"object": "list", "model": "e", "data": data[::-1]}, "")


class Bed:
    """A gateway with a chat model `m` and an embedder `e`."""

    def __init__(self, client: AsyncOpenAI, chat: Chat, embed: Embed, semantic: lookup.Semantic) -> None:
        self.client, self.chat, self.embed, self.semantic = client, chat, embed, semantic
        self.encoded: list[bytes] = []  # spans of requests
        self.pools: Callable[[], dict[str, PoolState]] = dict

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
        return str(json.loads((await self._page("readyz"))[1])["semantic_cache"])

    async def says(self, cache: str, semantic: str, *faults: str) -> None:
        """Wait until `/readyz` says so of both caches, and the control plane, which reads it and `/metrics`, has these faults of them."""
        # Not above, because Django has to be set up for it, which benches do not.
        from controlplane.fleet.observe.core.ready import CACHE_FAULTS, reading
        from controlplane.fleet.observe.targets import GATEWAY

        seen: tuple[Any, ...] = ()

        async def said() -> bool:
            nonlocal seen
            (status, ready), metrics = await self._page("readyz"), await self._page("metrics")
            page, read = json.loads(ready), reading(status, ready, *metrics, GATEWAY)
            known = [fault.text for fault in CACHE_FAULTS if fault.text in read.error]
            seen = (status, page["cache"], page["semantic_cache"], *known)
            return seen == (200, cache, semantic, *faults)

        await eventually_async(said, lambda: seen)

    async def _page(self, name: str) -> tuple[int, str]:
        client = self.client.with_options(base_url=str(self.client.base_url).removesuffix("v1/"))
        answer = await client.get(f"/{name}", cast_to=httpx2.Response)
        return answer.status_code, answer.text

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


class _RealChat(Servers):
    """But for the pool `m`, whose servers are its endpoints."""

    real = OpenAIConnector(Credentials(None))

    def connect(self, pool: Pool, endpoint: Endpoint, timeout_s: float) -> Any:
        return (self.real if pool.name == "m" else super()).connect(pool, endpoint, timeout_s)

    def backend(self, link: Any, pool: Pool, endpoint: Endpoint) -> Any:
        return (self.real if pool.name == "m" else super()).backend(link, pool, endpoint)


def capital(text: str) -> str:
    name = next(word for word in text.replace("'s", "").replace("?", "").lower().split() if word in NAMES)
    return f"{name.upper()}-CITY"


def snapshot(rule: SemanticRule = RULE, **cache: Any) -> Snapshot:
    pools = tuple(
        Pool(name, name, "r", name, "", (Endpoint("r0", url=f"http://127.0.0.1:{port}/v1"),), protocol="openai")
        for port, name in enumerate(("m", "e", "j"), 1)
    )
    version = secrets.token_hex(4)  # so that no test meets the answers of another
    given = a_snapshot(*pools, prompt_version=version, cache=CacheRule(semantic=rule, **cache))
    other = Tenant("bob", "standard", (key_digest(OTHER_KEY),))
    given = msgspec.structs.replace(given, tenants=(*given.tenants, other))
    others = tuple(Model(name, (Route(name),), prompt_version=version) for name in ("e", "j"))
    return msgspec.structs.replace(given, models=(*given.models, *others))


@asynccontextmanager
async def bed(
    folder: Path,
    patch: pytest.MonkeyPatch,
    redis_url: str,
    given: Snapshot | None = None,
    answer: Callable[[str], str] = capital,
    *,
    passes: bool = False,
    judge: ScriptedBackend | None = None,
    real: bool = False,
) -> AsyncIterator[Bed]:
    """`real`: the chat is the server at its endpoint."""
    chat, embed = (PassingChat(answer), PassingEmbed(())) if passes else (Chat(answer), Embed(()))
    made, fleets = list[lookup.Semantic](), list[Fleet]()

    def semantic(*parts: Any) -> lookup.Semantic:
        made.append(lookup.Semantic(*parts))
        return made[-1]

    def fleet(*parts: Any, **options: Any) -> Fleet:
        fleets.append(Fleet(*parts, **options))
        return fleets[-1]

    patch.setattr("inference.app.Semantic", semantic)
    patch.setattr("inference.app.Fleet", fleet)
    encoded = list[bytes]()

    def submit(_: SpanExport, item: Item) -> None:
        if isinstance(item, Trace):
            encoded.append(encode_trace(item, 0))

    patch.setattr(SpanExport, "submit", submit)
    servers = (_RealChat if real else Servers)(m=chat, e=embed, j=judge or Chat(lambda _: ""))
    async with serve_pools(lambda *_, **__: servers, given or snapshot(), folder, patch, redis_url=redis_url) as client:
        await eventually_async(lambda: client.models.list())
        await eventually_async(
            lambda: not made or made[0].store.reason != NO_REDIS
        )  # else its first requests skip the cache
        it = Bed(client, chat, embed, made[0] if made else None)  # type: ignore[arg-type]
        it.encoded, it.pools = encoded, lambda: fleets[0].pools
        yield it
