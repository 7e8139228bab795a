"""Traces the control plane itself. Its spans carry `weir.internal`, and the ledger counts none of them as a request.

They go to Weir's own telemetry (`WEIR_OTLP_ENDPOINT`), and to any other collector that the usual settings of OpenTelemetry's SDK name:
`OTEL_EXPORTER_OTLP_ENDPOINT`, its headers and certificates, `OTEL_TRACES_SAMPLER`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_SERVICE_NAME`.
"""

import atexit
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

from opentelemetry import trace
from opentelemetry.propagate import extract, inject
from opentelemetry.trace import Span, SpanKind

from controlplane.config import Config
from inference.contract.stages import INTERNAL

SCOPE = "weir.controlplane"


def is_wanted(config: Config) -> bool:
    """Whether anybody gets this process's spans."""
    return bool(config.otlp_endpoint) or _names_a_collector()


def configure(service: Literal["weir-web", "weir-worker", "weir-controller"], config: Config) -> None:
    """Send this process's spans to whoever wants them; with nobody, every span below is a no-op. Call once per process."""
    if not is_wanted(config):
        return
    # Half a second of importing, in processes that send something.
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from controlplane.observability.span_export import SpanExporter

    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": service}
    provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
    if config.otlp_endpoint:
        headers = {"authorization": f"Bearer {config.otlp_token}"} if config.otlp_token else {}
        trusted = os.environ.get("SSL_CERT_FILE")  # the exporter's own default is no file of this system
        url = f"{config.otlp_endpoint.rstrip('/')}/v1/traces"
        own = SpanExporter(endpoint=url, certificate_file=trusted, headers=headers, timeout=5)
        provider.add_span_processor(BatchSpanProcessor(own, schedule_delay_millis=1_000, export_timeout_millis=5_000))
    if _names_a_collector():
        provider.add_span_processor(BatchSpanProcessor(SpanExporter()))  # configured by OTEL_*
    trace.set_tracer_provider(provider)
    atexit.register(provider.shutdown)


def _names_a_collector() -> bool:
    return any(os.environ.get(f"OTEL_EXPORTER_OTLP_{name}ENDPOINT") for name in ("", "TRACES_"))


@contextmanager
def span(
    name: str, kind: SpanKind = SpanKind.INTERNAL, parent: str = "", **attributes: str | int | float | bool
) -> Iterator[Span]:
    """A span of the control plane around a block; an exception marks it as an error and is raised on.

    `parent`: the `traceparent()` of what this goes on with, where another process or an earlier time began it.
    """
    tracer = trace.get_tracer(SCOPE)
    context = extract({"traceparent": parent}) if parent else None
    with tracer.start_as_current_span(name, context, kind=kind, attributes={INTERNAL: True, **attributes}) as current:
        yield current


@contextmanager
def call(name: str, attributes: Mapping[str, str]) -> Iterator[Span]:
    """A span around a call of another system, within what is traced already: by itself it would say nothing."""
    if not trace.get_current_span().get_span_context().is_valid:
        yield trace.INVALID_SPAN
        return
    tracer = trace.get_tracer(SCOPE)
    with tracer.start_as_current_span(name, kind=SpanKind.CLIENT, attributes={INTERNAL: True, **attributes}) as current:
        yield current


def traceparent() -> str:
    """Where the present trace is, for what goes on with it later; empty where nothing is traced."""
    carrier: dict[str, str] = {}
    inject(carrier)
    return carrier.get("traceparent", "")
