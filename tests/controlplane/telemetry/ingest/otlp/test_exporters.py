"""The official SDK's own exporter, as an application would use it."""

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import SpanKind

from tests.support.telemetry.process import Running
from tests.support.wait import eventually


def test_its_spans_come_back_as_they_were(telemetry: Running) -> None:
    provider = TracerProvider(resource=Resource({"service.name": "an-application"}))
    exporter = OTLPSpanExporter(f"{telemetry.url}/v1/traces", compression=Compression.Gzip)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("tests")
    start = tracer.start_as_current_span
    with start("outer", kind=SpanKind.SERVER) as outer, start("inner") as inner:
        inner.set_attributes({"text": "a", "whole": 3, "broken": 0.5, "yes": True, "many": ("x", "y")})
        inner.add_event("first_token", {"n": 1})
    provider.shutdown()
    with telemetry.store() as store:
        trace_id = f"{outer.get_span_context().trace_id:032x}"
        eventually(lambda: len(store.requests.trace(trace_id)) == 2, "both spans are in the store")
        stored = {span.name: span for span in store.requests.trace(trace_id)}
    assert stored["inner"].attributes == {"text": "a", "whole": 3, "broken": 0.5, "yes": True, "many": ("x", "y")}
    assert stored["inner"].parent_id == stored["outer"].span_id
    assert [(event.name, event.attributes) for event in stored["inner"].events] == [("first_token", {"n": 1})]
    assert (stored["outer"].service, stored["outer"].kind) == ("an-application", 2)
