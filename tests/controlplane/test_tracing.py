"""Spans of the control plane arrive at an OTLP receiver, marked so that the ledger counts none as a request."""

from collections.abc import Iterator

import pytest
from aiohttp import web
from celery import Celery
from django.conf import settings
from django.http import HttpResponse
from django.test import Client, RequestFactory
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from pytest_django import Settings
from structlog.testing import capture_logs

from controlplane.observability import middleware, tasks, tracing
from controlplane.observability.span_export import SpanExporter
from inference.contract.stages import INTERNAL
from tests.support.http_server import ThreadedServer

pytestmark = pytest.mark.usefixtures("as_served")


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    settings.CONFIG = settings.CONFIG.model_copy(update={"otlp_endpoint": "http://127.0.0.1:9"})
    yield exporter
    provider.shutdown()


def test_spans_that_nobody_takes_are_said_once_and_so_is_the_end(caplog: pytest.LogCaptureFixture) -> None:
    status = 401

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status)

    made = TracerProvider().get_tracer("test").start_span("made")
    with ThreadedServer(web.post("/v1/traces", answer)) as server, capture_logs() as logs:
        exporter = SpanExporter(endpoint=f"{server.url}/v1/traces")
        for _ in range(3):
            exporter.export([made])  # type: ignore[list-item]
        status = 200
        exporter.export([made])  # type: ignore[list-item]
    assert [each["event"] for each in logs] == ["spans.not_taken", "spans.taken_again"]
    assert "401" in logs[0]["reason"] and not caplog.records


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
    middleware.Tracing(lambda _: HttpResponse(status=500))(RequestFactory().get("/boom"))
    assert only(exported).status.status_code is StatusCode.ERROR


def test_work_of_the_worker_is_marked_too(exported: InMemorySpanExporter) -> None:
    with pytest.raises(ValueError, match="no"), tracing.span("observe the stack", components=3):
        raise ValueError("no")
    span = only(exported)
    assert attributes(span) == {INTERNAL: True, "components": 3}
    assert span.status.status_code is StatusCode.ERROR


def test_what_a_page_waits_for_is_beneath_it_and_without_a_page_there_is_nothing(
    exported: InMemorySpanExporter,
) -> None:
    with tracing.call("store query", {}):
        pass
    assert exported.get_finished_spans() == ()
    with tracing.span("page"), tracing.call("store query", {"db.query.text": "SELECT 1"}):
        pass
    below, page = exported.get_finished_spans()
    assert below.parent is not None
    assert page.context is not None
    assert below.parent.span_id == page.context.span_id
    assert below.kind is SpanKind.CLIENT


def test_a_decision_and_what_is_done_of_it_later_are_one_trace(exported: InMemorySpanExporter) -> None:
    assert tracing.traceparent() == ""
    with tracing.span("policy tick"):
        kept = tracing.traceparent()
    with tracing.span("another tick"), tracing.span("policy action", parent=kept):
        pass
    spans = {span.name: span.context.trace_id for span in exported.get_finished_spans() if span.context}
    assert spans["policy action"] == spans["policy tick"] != spans["another tick"]


def test_a_task_is_a_span_that_says_whether_it_failed(exported: InMemorySpanExporter) -> None:
    app = Celery("traced", set_as_current=False)
    app.conf.task_always_eager = True
    tasks.listen()

    @app.task(name="plan.renew")  # type: ignore[untyped-decorator]
    def renew(good: bool) -> None:
        if not good:
            raise ValueError("no forecast")

    renew.delay(True)
    renew.delay(False)
    spans = [(span.name, span.status.status_code) for span in exported.get_finished_spans()]
    assert spans == [("task plan.renew", StatusCode.UNSET), ("task plan.renew", StatusCode.ERROR)]


def test_any_collector_gets_the_spans_that_the_usual_settings_name(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[tuple[str, str | None, bytes]] = []

    async def collect(request: web.Request) -> web.Response:
        received.append((request.path, request.headers.get("x-tenant"), await request.read()))
        return web.Response()

    with ThreadedServer(web.post("/{path:.*}", collect)) as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=search")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=staging")
        providers: list[TracerProvider] = []
        monkeypatch.setattr(trace, "set_tracer_provider", providers.append)
        tracing.configure("weir-worker", settings.CONFIG.model_copy(update={"otlp_endpoint": ""}))
        with providers[0].get_tracer("test").start_as_current_span("page"):
            pass
        providers[0].shutdown()
    ((path, tenant, body),) = received
    assert (path, tenant) == ("/v1/traces", "search")
    assert all(part in body for part in (b"weir-worker", b"staging", b"page"))
