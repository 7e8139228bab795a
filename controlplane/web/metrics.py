"""Serves `/metrics` of the web process, as Prometheus or OpenMetrics text, to WEIR_METRICS_TOKEN, a login or an API token."""

import time
from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.views.decorators.http import require_safe
from opentelemetry import trace
from prometheus_client import REGISTRY, Counter, Histogram
from prometheus_client.exposition import choose_encoder

REQUESTS = Counter("weir_web_requests", "HTTP requests answered.", ["method", "route", "status"])
DURATION = Histogram(
    "weir_web_request_duration_seconds",
    "From the first middleware to the response, streaming not included.",
    ["route"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """The metrics of this process. Each of granian's workers has its own, so run one worker where web is scraped."""
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return HttpResponse(encode(REGISTRY), headers={"Content-Type": content_type})


class Metrics:
    """Django middleware: counts and times requests by route. Labels come from a fixed set, so clients cannot add series."""

    sync_capable = async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]) -> None:
        self.get_response: Callable[[HttpRequest], Any] = get_response
        self.is_async = iscoroutinefunction(get_response)
        if self.is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if self.is_async:
            return self._async(request)
        began = time.perf_counter()
        response: HttpResponseBase = self.get_response(request)
        _count(request, response, time.perf_counter() - began)
        return response

    async def _async(self, request: HttpRequest) -> HttpResponseBase:
        began = time.perf_counter()
        response: HttpResponseBase = await self.get_response(request)
        _count(request, response, time.perf_counter() - began)
        return response


def _count(request: HttpRequest, response: HttpResponseBase, seconds: float) -> None:
    match = request.resolver_match
    route = match.route if match is not None else "static or unknown"
    method = request.method if request.method in METHODS else "other"
    REQUESTS.labels(method, route, response.status_code).inc()
    DURATION.labels(route).observe(seconds, _exemplar())


def _exemplar() -> dict[str, str] | None:
    """The trace of this request where it is sampled: the exemplar of its bucket."""
    context = trace.get_current_span().get_span_context()
    if not context.trace_flags.sampled:
        return None
    return {"trace_id": format(context.trace_id, "032x"), "span_id": format(context.span_id, "016x")}
