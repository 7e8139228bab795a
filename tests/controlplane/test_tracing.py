"""Spans of the control plane arrive at an OTLP receiver, marked so that the ledger counts none as a request."""

from collections.abc import Iterator

import pytest
from django.http import HttpResponse
from django.test import Client, RequestFactory
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from pytest_django import Settings

from controlplane.observability import tracing
from inference.contract.own_requests import INTERNAL


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    settings.CONFIG = settings.CONFIG.model_copy(update={"otlp_endpoint": "http://127.0.0.1:9"})
    yield exporter
    provider.shutdown()


def only(exporter: InMemorySpanExporter) -> ReadableSpan:
    (span,) = exporter.get_finished_spans()
    return span


def attributes(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


@pytest.mark.django_db
def test_a_page_is_one_server_span_named_by_its_route(exported: InMemorySpanExporter, owner: Client) -> None:
    assert owner.get("/admin/fleet/pool/add/").status_code == 200
    span = only(exported)
    assert (span.name, span.kind) == ("GET /admin/fleet/pool/add/", SpanKind.SERVER)
    assert attributes(span) == {
        INTERNAL: True,
        "http.request.method": "GET",
        "url.path": "/admin/fleet/pool/add/",
        "http.route": "/admin/fleet/pool/add/",
        "http.response.status_code": 200,
    }


@pytest.mark.django_db
def test_a_callers_trace_is_continued(exported: InMemorySpanExporter, outsider: Client) -> None:
    outsider.get("/login", headers={"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"})
    context = only(exported).get_span_context()
    assert context is not None
    assert f"{context.trace_id:032x}" == "ab" * 16


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/static/nothing.css"])
def test_what_machines_ask_every_few_seconds_is_not_traced(
    exported: InMemorySpanExporter, owner: Client, path: str
) -> None:
    owner.get(path)
    assert exported.get_finished_spans() == ()


def test_an_answer_of_500_is_an_error(exported: InMemorySpanExporter) -> None:
    tracing.Tracing(lambda _: HttpResponse(status=500))(RequestFactory().get("/boom"))
    assert only(exported).status.status_code is StatusCode.ERROR


def test_work_of_the_worker_is_marked_too(exported: InMemorySpanExporter) -> None:
    with pytest.raises(ValueError, match="no"), tracing.span("observe the stack", components=3):
        raise ValueError("no")
    span = only(exported)
    assert attributes(span) == {INTERNAL: True, "components": 3}
    assert span.status.status_code is StatusCode.ERROR
