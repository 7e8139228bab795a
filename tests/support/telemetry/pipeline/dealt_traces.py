"""Traces whose spans reach several telemetry processes at random, and the row that one process makes of all of them."""

import random
from collections.abc import Mapping, Sequence

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from controlplane.telemetry.core.spans import CLIENT, INTERNAL, SERVER, Caller
from controlplane.telemetry.ingest.otlp.rejoin import moved
from controlplane.telemetry.ledger import LedgerRow, close

from ..otlp_payloads import MS, pair, spans_in

_STAGES = ("gateway", "cache", "tokenizer", "queue")


class DealtTrace:
    """A gateway's request with Triton's spans inside its call, with an export body per span. Where Triton lost the caller's `traceparent`,
    its spans are in another trace."""

    def __init__(self, source: random.Random, now_ns: int) -> None:
        self.id = source.randbytes(16)
        self._source, self._start_ns = source, now_ns - 5_000 * MS
        self._bodies: list[ExportTraceServiceRequest] = []
        root = self._span(
            "chat chat-small", b"", SERVER, 0, 100, {"weir.request": True, "weir.model": "chat-small"}, "weir.gateway"
        )
        for number, stage in enumerate(_STAGES):
            self._span(f"{stage}.work", root, INTERNAL, 10 * number, 10, {"weir.stage": stage}, "weir.gateway")
        call = self._span("model.infer", root, CLIENT, 45, 50, {"weir.stage": "model"}, "weir.gateway")
        self._caller = Caller(self.id, call)
        lost = source.random() < 0.3
        self._triton_id = source.randbytes(16) if lost else self.id
        request = self._span("InferRequest", b"" if lost else call, SERVER, 47, 46, {}, "triton-server")
        said = {"triton.model_name": "chat_small", "triton.request_id": f"00-{self.id.hex()}-{call.hex()}-01"}
        model = self._span("chat_small", request, SERVER, 48, 40, said, "triton-server")
        self._span("compute", model, SERVER, 50, 38, {}, "triton-server")

    def _span(
        self, name: str, parent: bytes, kind: int, after_ms: int, ms: int, attributes: Mapping[str, object], scope: str
    ) -> bytes:
        body, span_id, start_ns = ExportTraceServiceRequest(), self._source.randbytes(8), self._start_ns + after_ms * MS
        resource = body.resource_spans.add()
        resource.resource.attributes.append(pair("service.name", scope))
        held = resource.scope_spans.add()
        held.scope.name = scope
        held.spans.add(
            trace_id=self._triton_id if scope == "triton-server" else self.id, span_id=span_id, parent_span_id=parent, name=name,
            kind=kind, start_time_unix_nano=start_ns, end_time_unix_nano=start_ns + ms * MS,
            attributes=[pair(*item) for item in attributes.items()],
        )  # fmt: skip
        self._bodies.append(body)
        return span_id

    def dealt(self, hands: int) -> list[ExportTraceServiceRequest]:
        """Its spans in `hands` bodies, at random."""
        found = [ExportTraceServiceRequest() for _ in range(hands)]
        for body in self._source.sample(self._bodies, len(self._bodies)):
            self._source.choice(found).MergeFrom(body)
        return found

    def row(self) -> LedgerRow:
        """The row that one process makes of all its spans."""
        spans = [span for body in self._bodies for span in spans_in(body.SerializeToString())]
        [row] = close([span if span.trace_id == self.id else moved(span, self._caller) for span in spans])
        return row


def merged(bodies: Sequence[ExportTraceServiceRequest]) -> bytes:
    whole = ExportTraceServiceRequest()
    for body in bodies:
        whole.MergeFrom(body)
    return whole.SerializeToString()
