"""Sends questions to the gateway. Each is a CLIENT span which the gateway continues, so that time on the network is measured."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import aiohttp
import structlog
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from deploy.local.traffic.questions import TENANTS, Question

log = structlog.get_logger(__name__)

ERROR_BYTES = 64
"""The end of a stream that shows whether it is whole."""


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="WEIR_", frozen=True, extra="ignore")

    home: Path = Field(default=Path(".weir"), description="Where the gateway keys lie.")
    gateway_url: str = Field(default="http://127.0.0.1:8080", description="The gateway.")
    otlp_endpoint: str = Field(
        default="http://127.0.0.1:4318", description="Where the client spans go; empty sends none."
    )
    traffic_rps: float = Field(default=2.5, gt=0, le=50, description="Requests per second, on average.")

    @property
    def keys(self) -> dict[str, str]:
        """The gateway keys that there are, by file."""
        return {name: path.read_text().strip() for name in TENANTS if (path := self.home / name).exists()}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a request. `status` 0: no answer. `degraded` names the steps of the ladder that changed it."""

    key_file: str
    status: int
    first_s: float | None = None  # until the first byte of a stream
    degraded: str = ""
    retry_after: str = ""
    has_left: bool = False  # the client did not wait
    problem: str = ""

    @property
    def answered(self) -> bool:
        return self.status == HTTPStatus.OK and not self.problem

    @property
    def refused(self) -> bool:
        """With a time to come back after."""
        return bool(self.retry_after) and not self.answered


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

    async def send(self, question: Question) -> Outcome:
        """Never raises: what failed is in the outcome."""
        begun_s = time.monotonic()
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
                    outcome = await self._post(question, begun_s)
                span.set_attribute("http.response.status_code", outcome.status)
                if outcome.problem:
                    _fail(span, "stream_broken")
                self._report(None if outcome.status < 500 or outcome.retry_after else f"HTTP {outcome.status}")
            except TimeoutError:
                if question.leaves_after_s is None:  # aiohttp's own limit
                    _fail(span, "timeout")
                    self._report("no answer in time")
                    return Outcome(question.key_file, 0, problem="no answer in time")
                span.set_attribute("error.type", "cancelled")
                return Outcome(question.key_file, 0, has_left=True)
            except aiohttp.ClientError as error:
                _fail(span, type(error).__name__)
                self._report(type(error).__name__)
                return Outcome(question.key_file, 0, problem=type(error).__name__)
            else:
                return outcome

    async def _post(self, question: Question, begun_s: float) -> Outcome:
        """Returns after the last byte of the answer, which is discarded but for an error event."""
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
            first_s, tail = None, b""
            async for part in response.content.iter_any():
                if question.stream and first_s is None:
                    first_s = time.monotonic() - begun_s
                tail = (tail + part)[-ERROR_BYTES:]
            broken = (
                response.status == HTTPStatus.OK and question.stream and not tail.rstrip().endswith(b"data: [DONE]")
            )
            return Outcome(
                question.key_file,
                response.status,
                first_s,
                degraded=response.headers.get("x-weir-degraded", ""),
                retry_after=response.headers.get("Retry-After", ""),
                problem="the stream ended without [DONE]" if broken else "",
            )

    def _report(self, problem: str | None) -> None:
        """Log when the gateway begins to fail, and when it answers again."""
        if (problem is not None) != self._failing:
            self._failing = problem is not None
            log.warning("traffic.gateway_failed", reason=problem) if problem else log.info("traffic.gateway_recovered")


def _fail(span: Span, error_type: str) -> None:
    span.set_attribute("error.type", error_type)
    span.set_status(StatusCode.ERROR)


@asynccontextmanager
async def connected(settings: Settings) -> AsyncIterator[Client]:
    """A client that sends its spans while the block runs."""
    provider = TracerProvider(resource=Resource({"service.name": "weir-traffic"}))
    if settings.otlp_endpoint:
        provider.add_span_processor(
            BatchSpanProcessor(OTLPSpanExporter(f"{settings.otlp_endpoint}/v1/traces"), schedule_delay_millis=500)
        )
    try:
        async with aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=120), connector=aiohttp.TCPConnector(limit=0)
        ) as session:
            yield Client(settings, session, settings.keys, provider.get_tracer("weir.traffic"))
    finally:
        await asyncio.to_thread(provider.shutdown)
