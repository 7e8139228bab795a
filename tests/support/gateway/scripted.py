"""Model servers whose answers a test writes down, in the test's process: for shapes of answers, and for what the gateway makes
of them. What real servers do is tested against them.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from inference.app import Gateway
from inference.backends.fleet import PoolState
from inference.backends.port import CallInfo, Detected, Embeddings, Event, Link, ServerLoad, Usage
from inference.backends.replica import Replica
from inference.config import Config
from inference.contract import snapshot_file
from inference.contract.plan import Plan
from inference.contract.snapshot import Endpoint, Model, Pool, Route, Snapshot, StageTimeouts, Tenant, Tier, key_digest
from inference.core.capabilities import Capabilities
from inference.core.fair_queue import Claim
from inference.core.openai.writers import ChatWriter, Format
from inference.core.passing.request import made
from inference.core.question import PARAMETERS, Message, Question
from inference.request.coalesce import Flight
from inference.request.parse import Endpoint as EndpointOfRequests
from inference.request.parse import Request, Understood
from inference.request.work import Work
from inference.tokenizers.model_text import Prepared
from inference.wires.http.server import Server
from tests.support.gateway.trusted import TRUSTED

KEY = "scripted-key"
SERVER = "Scripted"
USAGE = Usage(11, 7, 3, 2)
DONE = Event(finish_reason="stop", usage=Usage(10, 2))

Step = Event | BaseException | Callable[[], Awaitable[object]] | None
"""What comes next: an event, an error, something to wait for, or the end. After the last one comes the end too."""


class ScriptedStream:
    """The stream of one call. It fails a test that reads on after the end, or after an answer that is complete."""

    waiting = False
    head = None
    awaited_since_s = 0.0

    def __init__(self, steps: Sequence[Step], choices: int) -> None:
        self._steps = deque(steps)
        self._open = choices  # without a finish reason
        self._counted = self._ended = False
        self.cancelled = False

    async def sent(self) -> None:
        raise AssertionError("it never waits")

    async def next(self) -> Sequence[Event]:
        assert not self._ended, "nothing is read after the end"
        events = list[Event]()
        while self._steps and not self._ended:
            step = self._steps[0]
            if events and not isinstance(step, Event):
                return events  # those that follow each other come together
            self._steps.popleft()
            if isinstance(step, BaseException):
                raise step
            if isinstance(step, Event):
                self._open -= bool(step.finish_reason)
                self._counted |= step.usage is not None
                self._ended = self._counted and not self._open
                events.append(step)
            elif step is None:
                break
            else:
                self.awaited_since_s = time.monotonic()
                await step()
                self.awaited_since_s = 0.0
        self._ended |= not events
        return events

    def cancel(self) -> None:
        self.cancelled = True


class ScriptedBackend:
    """A link, a connector and a backend: one server with one model. It answers each call with the next of `answers`, and the
    last of them again and again. An answer that is an error refuses the call itself.
    """

    needs_prompt = needs_ids = False
    passes = False
    full = False
    arrivals = 0
    waits: float | None = None  # requests that it says wait there
    target = "scripted"

    def __init__(self, *answers: Sequence[Step] | BaseException, server: str = SERVER) -> None:
        self.capabilities = Capabilities(server, dict.fromkeys(PARAMETERS, "forwarded"))
        self.questions: list[Question] = []
        self.calls: list[CallInfo] = []
        self.streams: list[ScriptedStream] = []
        self.vectors: tuple[bytes, ...] = ()
        self._answers = answers

    @property
    def link(self) -> Link:
        return self

    def ping(self) -> None: ...
    def renew(self) -> None: ...
    def disconnect(self) -> None: ...
    def close(self) -> None: ...

    def link_key(self, pool: Pool, endpoint: Endpoint) -> Hashable:
        return endpoint.url

    def connect(self, pool: Pool, endpoint: Endpoint, timeout_s: float) -> "ScriptedBackend":
        return self

    def backend(self, link: Link, pool: Pool, endpoint: Endpoint) -> "ScriptedBackend":
        return self

    async def generate(self, question: Question, call: CallInfo) -> ScriptedStream:
        answer = self._answers[min(len(self.calls), len(self._answers) - 1)]
        self.questions.append(question)
        self.calls.append(call)
        if isinstance(answer, BaseException):
            raise answer
        self.streams.append(ScriptedStream(answer, question.choices))
        return self.streams[-1]

    async def embed(self, question: Question, call: CallInfo) -> Embeddings:
        self.questions.append(question)
        return Embeddings(self.vectors, Usage(5))

    async def count(self, question: Question, timeout_s: float) -> int | None:
        return None

    async def ready(self, timeout_s: float) -> bool:
        return True

    async def signals(self, timeout_s: float) -> ServerLoad:
        return ServerLoad(asyncio.get_running_loop().time(), self.waits)

    async def detect(self, timeout_s: float) -> Detected:
        return Detected("openai", "1", ("m",))


class Servers:
    """A connector with a backend for each pool."""

    def __init__(self, **backends: ScriptedBackend) -> None:
        self._backends = backends

    def link_key(self, pool: Pool, endpoint: Endpoint) -> str:
        return pool.name

    def connect(self, pool: Pool, endpoint: Endpoint, timeout_s: float) -> ScriptedBackend:
        return self._backends[pool.name]

    def backend(self, link: object, pool: Pool, endpoint: Endpoint) -> ScriptedBackend:
        return self._backends[pool.name]


# Pools, without a gateway ----------------------------------------------------------------------------


def a_pool(*backends: ScriptedBackend, name: str = "p", **fields: Any) -> PoolState:
    """A pool whose replicas are up."""
    state = PoolState(Pool(name, name, "here", "m", "", (), **fields), 1.0, lambda _: None)
    for number, backend in enumerate(backends):
        replica = Replica(name, f"r{number}", backend, number)
        replica.health.answered()
        state.replicas.append(replica)
    return state


def take_down(replica: Replica) -> None:
    """As calls do that cannot reach it."""
    for _ in range(replica.health.rule.probes):
        replica.unreached(time.monotonic(), "connection refused")


def some_work(
    pool: PoolState,
    *fallbacks: PoolState,
    model: dict[str, Any] | None = None,
    timeouts: dict[str, int] | None = None,
    **question: Any,
) -> Work:
    """A short chat for `pool`."""
    fields: Any = {"operation": "chat", "messages": (Message("user", "Hello"),), "max_tokens": 8, **question}
    query = Question(**fields)
    return Work(
        query,
        Model("m", (Route(pool.pool.name),), **(model or {})),
        pool,
        fallbacks,
        OneToken(),  # type: ignore[arg-type]
        StageTimeouts(**{"first_token_ms": 10_000, **(timeouts or {})}),
        Claim("standard", "t", 2, 1, 8),
        b"\1" * 16,
        b"01",
        Plan((Route(pool.pool.name),), tuple(other.pool.name for other in fallbacks), "deterministic"),
        a_request(query),
    )


def a_request(question: Question) -> Request:
    """A request that has made this question."""
    passed = made("/v1/chat/completions", question.operation, {"model": "m", "temperature": question.temperature})
    understood = Understood([], lambda _: question, lambda *_: ChatWriter("id", 0, "m", Format()))
    request = Request(passed, EndpointOfRequests("chat", lambda _: understood))
    request.question(Model("m", ()))
    return request


class OneToken:
    """A tokenizer for which every prompt is a token."""

    async def prepare(self, question: Question, **_: object) -> Prepared:
        return Prepared(question, "", 1, "exact")

    async def decode(self, ids: list[int], start: int, skip_special_tokens: bool) -> str | None:
        raise AssertionError("no server here gives token ids")


def a_flight() -> Flight:
    return Flight(None, (b"", b""), 1)


# A gateway in this process ---------------------------------------------------------------------------


def a_snapshot(*pools: Pool, **model: Any) -> Snapshot:
    """The model `m`, on a pool of one replica unless others are given; the model's route is the first of them."""
    given = pools or (Pool("p", "v", "r", "m", "", (Endpoint("r0", url="http://127.0.0.1:1/v1"),), protocol="openai"),)
    return Snapshot(
        1,
        (msgspec.structs.replace(Model("m", (Route(given[0].name),)), **model),),
        given,
        (Tier("standard"),),
        (Tenant("alice", "standard", (key_digest(KEY),)),),
        timeouts=StageTimeouts(cache_ms=2_000),  # Redis shares its processor with tests
    )


@asynccontextmanager
async def serve(
    script: ScriptedBackend, folder: Path, patch: pytest.MonkeyPatch, *, redis_url: str = "", **model: Any
) -> AsyncIterator[AsyncOpenAI]:
    """The official client of a gateway in front of `script`."""
    async with serve_pools(lambda *_, **__: script, a_snapshot(**model), folder, patch, redis_url=redis_url) as client:
        yield client


@asynccontextmanager
async def serve_pools(
    connector: Callable[..., Any],
    snapshot: Snapshot,
    folder: Path,
    patch: pytest.MonkeyPatch,
    *,
    redis_url: str = "",
) -> AsyncIterator[AsyncOpenAI]:
    """The official client of a gateway with that snapshot, whose pools have the connector of `connector`."""
    patch.setattr("inference.app.OpenAIConnector", connector)
    snapshot_file.write(folder / "snapshot.json", snapshot)
    gateway = Gateway(Config(redis_url=redis_url, snapshot_path=folder / "snapshot.json", gateway_port=0))
    gateway.start()
    server = Server(
        gateway,
        gateway.admit,
        max_body_bytes=1 << 22,
        max_connections=64,
        max_buffered_bytes=1 << 26,
        read_timeout_s=30,
        write_timeout_s=30,
        idle_timeout_s=30,
        counts=gateway.edge,
    )
    port = await server.start("127.0.0.1", 0)
    connections = DefaultAsyncHttpxClient(verify=TRUSTED)
    client = AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=KEY, http_client=connections, max_retries=0)
    try:
        yield client
    finally:
        await client.close()
        hurry = asyncio.Event()
        hurry.set()
        await server.close(0, 0, hurry)
        await gateway.close()
