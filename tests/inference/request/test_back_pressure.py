"""A server is not read from while no client reads."""

import asyncio
from collections.abc import Sequence

import pytest

from inference.contract.snapshot import Model
from inference.core.events import Event
from inference.core.openai.errors import ApiError
from inference.core.question import Question
from inference.observability.spans import Trace
from inference.request.answer import Answer
from inference.request.coalesce import Flight
from inference.request.generate import generate
from tests.support.gateway.scripted import ScriptedBackend, a_pool, a_request, some_work


class Counted(ScriptedBackend):
    """A model that sends a thousand events of 1,000 characters, as fast as they are read."""

    def __init__(self) -> None:
        super().__init__(())
        self.head = None
        self.cancelled = self.waiting = False
        self.awaited_since_s = 0.0
        self.read = 0

    async def generate(self, *_: object) -> "Counted":  # type: ignore[override]
        return self

    def cancel(self) -> None:
        self.cancelled = True

    async def next(self) -> Sequence[Event]:
        await asyncio.sleep(0)
        self.read += 1
        if self.read <= 1000:
            return (Event("x" * 1000),)
        return (Event(finish_reason="stop"),) if self.read == 1001 else ()


async def attempt(model: Counted, flight: Flight) -> None:
    await generate(some_work(a_pool(model)), flight)


class Slow:
    """A client that does not read until it is told to."""

    def __init__(self) -> None:
        self.reads = asyncio.Event()
        self.written = 0
        self.started = False

    @property
    def blocked(self) -> bool:
        return self.written > 0 and not self.reads.is_set()

    async def drained(self, timeout_s: float) -> None:
        async with asyncio.timeout(timeout_s):
            await self.reads.wait()

    def start_stream(self, _: object, status: int) -> None:
        self.started = True

    def write(self, data: bytes) -> None:
        self.written += len(data)

    def end_stream(self, data: bytes = b"") -> None:
        self.write(data)


def a_stream(flight: Flight, out: Slow, egress_ms: int = 20_000) -> asyncio.Task[None]:
    trace = Trace(0, None, "chat")
    answer = Answer(trace, out, "/v1/chat/completions", None, 15.0)  # type: ignore[arg-type]
    answer.of(a_request(Question(operation="chat")), Model("m", ()))
    flight.requests += 1
    return asyncio.ensure_future(answer.stream(flight, egress_ms))


def a_flight(model: Counted) -> tuple[Flight, asyncio.Task[None]]:
    flight = Flight(None, (b"", b""), 1)
    return flight, asyncio.ensure_future(attempt(model, flight))


async def idle(model: Counted) -> None:
    """Until the model is not read from for a hundred turns of the event loop."""
    before = -1
    while before != model.read:
        before = model.read
        for _ in range(100):
            await asyncio.sleep(0)


async def test_the_model_is_not_read_from_while_no_client_reads() -> None:
    model, out, other = Counted(), Slow(), Slow()
    flight, work = a_flight(model)
    client = a_stream(flight, out)
    await idle(model)
    assert 256 <= model.read < 300  # 256 Ki characters ahead
    joined = a_stream(flight, other)  # it needs what comes next no sooner: it does not read either
    await idle(model)
    assert model.read < 600
    out.reads.set()
    await asyncio.gather(client, work)
    assert model.read == 1002
    other.reads.set()
    await joined
    assert out.written == other.written > 1_000_000


async def test_a_client_that_leaves_lets_the_others_go_on() -> None:
    model, gone, other = Counted(), Slow(), Slow()
    other.reads.set()
    flight, work = a_flight(model)
    clients = a_stream(flight, gone, egress_ms=1), a_stream(flight, other)
    with pytest.raises(ApiError, match="egress"):
        await clients[0]
    await asyncio.gather(clients[1], work)
    assert model.read == 1002
