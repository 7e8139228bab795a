"""The requests of a benchmark, as servers see them: stand-ins that check what they are sent, and a real Triton."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from deploy.local.triton import Triton
from inference.backends.credentials import Credentials
from inference.backends.openai import OpenAIConnector
from inference.backends.port import Connector
from inference.backends.triton import TritonConnector
from inference.benchmark.prompts import Prompts
from inference.benchmark.sender import CannotMeasureError, Sender
from inference.contract.benchmark_messages import Alone, Ended, Load, Pulse, Ready, Report, Sample, Setup
from inference.contract.snapshot import Endpoint, Pool
from inference.observability.spans import OwnCall
from tests.support.servers.standins import MODEL, SGLang
from tests.support.wait import eventually_async

FAST = 2_000.0


class TextOnly(SGLang):
    """A model without a chat template."""

    async def _infer(self, request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/chat/completions"):
            return self.error(400, "this model has no chat template")
        return await super()._infer(request)


class Measured:
    """A sender to a pool, and what it reported."""

    def __init__(self, connector: Connector, pool: Pool, slots: int) -> None:
        self.reports: list[Report] = []
        self.recorded: list[OwnCall] = []
        self.link = connector.connect(pool, pool.endpoints[0], 5.0)
        backend = connector.backend(self.link, pool, pool.endpoints[0])
        self.sender = Sender(Setup(pool, ((20, 3),), slots, 30.0), backend, self.reports.append, self.recorded.append)

    async def run(self, command: Alone | Load, stopped: asyncio.Event | None = None) -> list[Sample]:
        await self.sender.run(command, stopped or asyncio.Event())
        assert isinstance(self.reports[-1], Ended)
        return [sample for report in self.reports if isinstance(report, Pulse) for sample in report.ended]


def of_openai(server: SGLang, slots: int = 0) -> Measured:
    endpoint = Endpoint("r0", url=server.url)
    pool = Pool("p", "v", "here", MODEL, "", (endpoint,), protocol="openai", server="sglang")
    return Measured(OpenAIConnector(Credentials(Path("/none"), {})), pool, slots)


@pytest.fixture
async def server() -> AsyncIterator[SGLang]:
    running = SGLang()
    await running.start()
    yield running
    await running.stop()


async def test_each_request_is_sent_once_with_a_prompt_of_its_own_in_a_trace_that_is_no_request(server: SGLang) -> None:
    measured = of_openai(server)
    await measured.sender.ready()
    assert isinstance(measured.reports[0], Ready) and measured.reports[0].kind == "sglang"
    samples = await measured.run(Load(FAST, 20, 5.0))
    assert sorted(sample.number for sample in samples) == list(range(20)) and len(server.bodies) == 20
    assert len({body["messages"][0]["content"].split()[0] for body in server.bodies}) == 20
    assert {(body["max_tokens"], body["ignore_eos"], body["stream"]) for body in server.bodies} == {(3, True, True)}
    for headers in server.headers:
        assert headers["traceparent"] in {call.traceparent.decode() for call in measured.recorded}
    for sample in samples:
        times = (sample.arrived_s, sample.sent_s, sample.first_s, sample.ended_s)
        assert None not in times and list(times) == sorted(times)  # type: ignore[type-var]
        assert sample.input_tokens > 0 and sample.output_tokens == len(server.tokens)


async def test_arrivals_do_not_wait_for_answers_and_a_replica_gets_no_more_than_its_slots(server: SGLang) -> None:
    server.gate.clear()
    measured, stopped = of_openai(server, slots=2), asyncio.Event()
    load = asyncio.create_task(measured.run(Load(FAST, 6, 30.0), stopped))

    def under_way() -> tuple[Sample, ...]:
        pulses = [report for report in measured.reports if isinstance(report, Pulse)]
        return pulses[-1].open if pulses else ()

    await eventually_async(lambda: len(under_way()) == 6 and server.running == 2)
    await eventually_async(lambda: sum(sample.first_s is not None for sample in under_way()) == 2)
    assert sum(sample.sent_s is not None for sample in under_way()) == 2
    stopped.set()
    samples = await load
    assert len(samples) == 6 and all(sample.ended_s is None for sample in samples)
    await eventually_async(lambda: server.aborted == 2)


async def test_a_server_without_room_makes_its_requests_bad_and_one_that_fails_ends_it(server: SGLang) -> None:
    server.fault = "busy"
    [busy] = await of_openai(server).run(Load(FAST, 1, 5.0))
    assert busy.busy and busy.ended_s is not None
    await server.stop()
    with pytest.raises(CannotMeasureError, match=r"The replica (failed|does not answer)"):
        await of_openai(server).run(Load(FAST, 3, 5.0))
    with pytest.raises(CannotMeasureError, match="The replica does not answer"):
        await of_openai(server).sender.ready()


async def test_a_model_without_chats_gets_texts() -> None:
    server = TextOnly()
    await server.start()
    try:
        samples = await of_openai(server).run(Alone(2))
    finally:
        await server.stop()
    assert len(samples) == 2 and all("prompt" in body for body in server.bodies)


async def test_a_real_triton_is_measured_through_its_tensors(session_triton: Triton) -> None:
    pool = Pool("p", "v", "here", "chat_small", "1", (Endpoint("r0", grpc=session_triton.grpc),))
    measured = Measured(TritonConnector(Credentials(Path("/none"), {})), pool, 0)
    await measured.sender.ready()
    samples = await measured.run(Load(50.0, 5, 20.0))
    measured.link.close()
    assert len(samples) == 5
    assert all(sample.ended_s is not None and 0 < sample.output_tokens <= 3 for sample in samples)


def test_prompts_come_to_the_wanted_tokens_once_the_server_has_counted_two() -> None:
    prompts: Any = Prompts(((500, 10),))
    for _ in range(3):
        text, words, outputs = prompts.next()
        assert (len(text.split()), outputs) == (words, 10)
        prompts.learn(words, 30 + 2 * words)
    assert 30 + 2 * words == pytest.approx(500, abs=2)
    unknown = Prompts(((500, 10),))
    unknown.learn(unknown.next()[1], -1)
    assert 300 < unknown.next()[1] < 500
