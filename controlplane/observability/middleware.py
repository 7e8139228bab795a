"""Traces requests of the pages and the API. Apart from tracing.py, because processes without Django trace too."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest, HttpResponseBase
from opentelemetry import trace
from opentelemetry.propagate import extract
from opentelemetry.trace import Span, SpanKind, StatusCode

from controlplane.observability.tracing import SCOPE, is_wanted
from inference.contract.stages import INTERNAL

SERVER_ERROR = 500
UNTRACED = ("/static/", "/healthz", "/readyz", "/metrics")
"""Machines request these every few seconds: their spans would bury the others."""


class Tracing:
    """Django middleware, the outermost: a SERVER span per request, named by its route."""

    sync_capable = async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]) -> None:
        if not is_wanted(settings.CONFIG):
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
