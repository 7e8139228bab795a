"""Traces the control plane itself. Its spans carry `weir.internal`, and the ledger counts none of them as a request."""

import atexit
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest, HttpResponseBase
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagate import extract
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, StatusCode

from controlplane.config import Config
from inference.contract.own_requests import INTERNAL

SCOPE = "weir.controlplane"
SERVER_ERROR = 500
UNTRACED = ("/static/", "/healthz", "/readyz", "/metrics")
"""Machines request these every few seconds: their spans would bury the others."""


def configure(service: Literal["weir-web", "weir-worker", "weir-controller"], config: Config) -> None:
    """Send this process's spans to `otlp_endpoint`; with none, every span below is a no-op. Call once per process."""
    if not config.otlp_endpoint:
        return
    headers = {"authorization": f"Bearer {config.otlp_token}"} if config.otlp_token else {}
    exporter = OTLPSpanExporter(endpoint=f"{config.otlp_endpoint.rstrip('/')}/v1/traces", headers=headers, timeout=5)
    provider = TracerProvider(resource=Resource.create({"service.name": service}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=1_000, export_timeout_millis=5_000))
    trace.set_tracer_provider(provider)
    atexit.register(provider.shutdown)


@contextmanager
def span(name: str, kind: SpanKind = SpanKind.INTERNAL, **attributes: str | int | float | bool) -> Iterator[Span]:
    """A span of the control plane around a block; an exception marks it as an error and is raised on."""
    tracer = trace.get_tracer(SCOPE)
    with tracer.start_as_current_span(name, kind=kind, attributes={INTERNAL: True, **attributes}) as current:
        yield current


class Tracing:
    """Django middleware, the outermost: a SERVER span per request, named by its route."""

    sync_capable = async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]) -> None:
        from django.conf import settings

        if not settings.CONFIG.otlp_endpoint:
            raise MiddlewareNotUsed
        self.get_response: Callable[[HttpRequest], Any] = get_response
        self.is_async = iscoroutinefunction(get_response)
        if self.is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if self.is_async:
            return self._async(request)
        with _request_span(request) as current:
            response: HttpResponseBase = self.get_response(request)
            _finish(current, request, response)
        return response

    async def _async(self, request: HttpRequest) -> HttpResponseBase:
        with _request_span(request) as current:
            response: HttpResponseBase = await self.get_response(request)
            _finish(current, request, response)
        return response


@contextmanager
def _request_span(request: HttpRequest) -> Iterator[Span]:
    if request.path_info.startswith(UNTRACED):
        yield trace.INVALID_SPAN
        return
    method = request.method or "GET"
    with trace.get_tracer(SCOPE).start_as_current_span(
        method,
        context=extract({name.lower(): value for name, value in request.headers.items()}),
        kind=SpanKind.SERVER,
        attributes={INTERNAL: True, "http.request.method": method, "url.path": request.path_info},
    ) as current:
        yield current


def _finish(current: Span, request: HttpRequest, response: HttpResponseBase) -> None:
    match = request.resolver_match
    if match is not None and match.route:
        current.update_name(f"{request.method} /{match.route.lstrip('/')}")
        current.set_attribute("http.route", f"/{match.route.lstrip('/')}")
    current.set_attribute("http.response.status_code", response.status_code)
    if response.status_code >= SERVER_ERROR:
        current.set_status(StatusCode.ERROR)
