"""`python -m deploy.local.traffic`: sends generated requests through the gateway, so that a newcomer's pages show data at once.

Arrivals are random (Poisson), with a "day" of ten minutes in which the rate swings about its mean. Each request is a CLIENT span
which the gateway continues, so that time on the network is measured. Prompts are made of the sentences below.
"""

import asyncio
import contextlib
import json
import math
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import structlog
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

log = structlog.get_logger(__name__)

QUESTIONS = (
    "What is a weir?",
    "How do I find the slow part of a request?",
    "Why is the first word later than the others?",
    "What should a page to the person on call say?",
    "How much capacity do I need at noon?",
    "When is a cache allowed to answer?",
    "What is an error budget?",
    "How do I remove a machine without losing work?",
)
"""Repeated at temperature 0, so that the cache can answer them after the first time."""

SUBJECTS = (
    "the river",
    "a queue",
    "the cache",
    "bread",
    "the moon",
    "a bicycle",
    "birds in autumn",
    "a backup",
    "the budget",
    "a forecast",
)
WISHES = (
    "Explain {} to a child.",
    "Write a short story about {}.",
    "What is surprising about {}?",
    "Compare {} with {}.",
    "Summarise what follows about {}.",
)
NOTES = (
    "The gate was opened by a hand's breadth at six in the morning.",
    "After an hour the level had fallen, and nobody downstream had noticed.",
    "The second pump was slower than the first, though both are of the same make.",
    "We counted the requests again and found eleven more than in the log.",
    "Between noon and one o'clock the queue was never empty.",
    "The disk was replaced, and the times went back to what they were in spring.",
    "Somebody had set the limit to ten and written it down nowhere.",
    "In the evening the wind turned, and the water came back.",
)


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="WEIR_", frozen=True, extra="ignore")

    home: Path = Field(default=Path(".weir"), description="Where the gateway keys lie.")
    gateway_url: str = Field(default="http://127.0.0.1:8080", description="The gateway.")
    otlp_endpoint: str = Field(
        default="http://127.0.0.1:4318", description="Where the client spans go; empty sends none."
    )
    traffic_rps: float = Field(default=2.5, gt=0, le=50, description="Requests per second, on average.")
    traffic_day_s: float = Field(
        default=600.0, gt=0, description="Length of the imitated day, s: short, so that a newcomer sees it."
    )
    traffic_in_flight: int = Field(default=32, ge=1, description="Requests at once; further ones are skipped.")
    traffic_seed: int | None = Field(default=None, description="Makes the sequence of requests repeatable.")


TENANTS = {"gateway-key": 6, "gateway-key-premium": 2, "gateway-key-batch": 2}
"""Key files and how many requests in ten each sends; a missing file's share goes to the others."""


@dataclass(frozen=True, slots=True)
class Question:
    key_file: str
    model: str
    prompt: str
    max_tokens: int
    temperature: float
    stream: bool
    leaves_after_s: float | None  # a client that does not wait for its answer


def questions(chance: random.Random, key_files: dict[str, int]) -> Iterator[Question]:
    """Endless, varied questions; the same for the same `chance`."""
    while True:
        repeated = chance.random() < 0.3
        batch = chance.choices(list(key_files), list(key_files.values()))[0]
        yield Question(
            key_file=batch,
            model="chat-small" if repeated or chance.random() < 0.6 else "chat-large",
            prompt=chance.choice(QUESTIONS) if repeated else _prompt(chance),
            max_tokens=48 if repeated else chance.choice((16, 32, 64, 64, 128)),
            temperature=0.0 if repeated else 0.8,
            stream=chance.random() < 0.7,
            leaves_after_s=chance.uniform(0.05, 0.8) if chance.random() < 0.02 else None,
        )


def _prompt(chance: random.Random) -> str:
    """A wish: mostly alone, sometimes with a page of notes, rarely with a long text of them."""
    wish = chance.choice(WISHES).format(chance.choice(SUBJECTS), chance.choice(SUBJECTS))
    sentences = chance.choices((0, chance.randint(5, 40), chance.randint(80, 300)), (70, 25, 5))[0]
    return " ".join((wish, *(f"{number}. {chance.choice(NOTES)}" for number in range(sentences))))


def rate_at(elapsed_s: float, mean_rps: float, day_s: float) -> float:
    """Requests per second: from half the mean at "night" to one and a half times it at "noon"."""
    return mean_rps * (1 - 0.5 * math.cos(2 * math.pi * elapsed_s / day_s))


class Client:
    """Sends questions to the gateway, with one CLIENT span each."""

    def __init__(
        self, settings: Settings, session: aiohttp.ClientSession, keys: dict[str, str], tracer: Tracer
    ) -> None:
        self._url = f"{settings.gateway_url}/v1/chat/completions"
        self._session = session
        self._keys = keys
        self._tracer = tracer
        self._failing = False

    async def send(self, question: Question) -> None:
        attributes: dict[str, AttributeValue] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": question.model,
            "gen_ai.request.stream": question.stream,
        }
        with self._tracer.start_as_current_span(
            f"chat {question.model}", kind=SpanKind.CLIENT, attributes=attributes
        ) as span:
            try:
                async with asyncio.timeout(question.leaves_after_s):
                    status = await self._post(question)
                span.set_attribute("http.response.status_code", status)
                self._report(None if status < 500 else f"HTTP {status}")
            except TimeoutError:
                if question.leaves_after_s is None:  # aiohttp's own limit
                    span.set_status(StatusCode.ERROR, "timeout")
                    self._report("no answer in time")
                else:
                    span.set_attribute("error.type", "cancelled")
            except aiohttp.ClientError as error:
                span.set_status(StatusCode.ERROR, type(error).__name__)
                self._report(type(error).__name__)

    async def _post(self, question: Question) -> int:
        """Returns after the last byte of the answer, which is discarded."""
        headers = {"Authorization": f"Bearer {self._keys[question.key_file]}", "Content-Type": "application/json"}
        TraceContextTextMapPropagator().inject(headers)
        body = {
            "model": question.model,
            "messages": [{"role": "user", "content": question.prompt}],
            "max_tokens": question.max_tokens,
            "temperature": question.temperature,
            "stream": question.stream,
        }
        async with self._session.post(self._url, data=json.dumps(body), headers=headers) as response:
            async for _ in response.content.iter_any():
                pass
            return response.status

    def _report(self, problem: str | None) -> None:
        """Log when the gateway begins to fail, and when it answers again."""
        if (problem is not None) != self._failing:
            self._failing = problem is not None
            log.warning("traffic.gateway_failed", reason=problem) if problem else log.info("traffic.gateway_recovered")


async def run(settings: Settings) -> None:
    """Send requests until cancelled."""
    keys = {name: path.read_text().strip() for name in TENANTS if (path := settings.home / name).exists()}
    chance = random.Random(settings.traffic_seed)  # noqa: S311  (no secret)
    endless = questions(chance, {name: TENANTS[name] for name in keys})
    provider = TracerProvider(resource=Resource({"service.name": "weir-traffic"}))
    if settings.otlp_endpoint:
        provider.add_span_processor(
            BatchSpanProcessor(OTLPSpanExporter(f"{settings.otlp_endpoint}/v1/traces"), schedule_delay_millis=500)
        )
    trace.set_tracer_provider(provider)
    in_flight: set[asyncio.Task[None]] = set()
    begun = time.monotonic()
    try:
        async with aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=120), connector=aiohttp.TCPConnector(limit=0)
        ) as session:
            client = Client(settings, session, keys, provider.get_tracer("weir.traffic"))
            while True:
                rate = rate_at(time.monotonic() - begun, settings.traffic_rps, settings.traffic_day_s)
                await asyncio.sleep(chance.expovariate(rate))
                question = next(endless)
                if len(in_flight) < settings.traffic_in_flight:
                    task = asyncio.create_task(client.send(question))
                    in_flight.add(task)
                    task.add_done_callback(in_flight.discard)
    finally:
        await asyncio.to_thread(provider.shutdown)


def main() -> None:
    async def until_signal() -> None:
        task = asyncio.ensure_future(run(Settings()))
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(until_signal())


if __name__ == "__main__":
    main()
