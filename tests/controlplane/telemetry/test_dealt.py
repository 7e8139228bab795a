"""The spans of every trace go at random to two telemetry processes on one store, which are killed meanwhile. Each request must be one row,
the same that one process makes of all its spans.

`WEIR_KILL_SEED` repeats a run.
"""

import os
import random
import time
import urllib.error
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPException
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from controlplane.telemetry.core.spans import CLIENT, INTERNAL, SERVER, Caller
from controlplane.telemetry.ingest.otlp.rejoin import moved
from controlplane.telemetry.ledger import LedgerRow, close
from controlplane.telemetry.store import Store
from tests.support.telemetry.embedded_store import dsn_of, store_process
from tests.support.telemetry.otlp_payloads import MS, pair, spans_in
from tests.support.telemetry.process import Run, Running
from tests.support.wait import eventually

# In `make test`, ingest/pipeline/test_assembly.py has parts that other pipelines write between any two steps.
pytestmark = pytest.mark.soak
KILLS = 100
SEED = int(os.environ.get("WEIR_KILL_SEED", time.time_ns() % 10**6))
TRACES_A_ROUND = 40

_STAGES = ("gateway", "cache", "tokenizer", "queue")


class Trace:
    """A gateway's request with Triton's spans inside its call, with an export body per span. Where Triton lost the caller's `traceparent`,
    its spans are in another trace."""

    def __init__(self, source: random.Random) -> None:
        self.id = source.randbytes(16)
        self._source, self._start_ns = source, time.time_ns() - 5_000 * MS
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


def send(processes: Sequence[Running], body: bytes, source: random.Random) -> None:
    """Send the body as an exporter behind a balancer does, until one of the processes has acknowledged it; now and then once more."""
    left = source.choice((1, 1, 1, 2))
    while left:
        try:
            if source.choice(processes).post(body)[0] == 200:
                left -= 1
        except (OSError, urllib.error.URLError, HTTPException):
            pass  # it was killed: it may have taken the body, and another gets it too


@pytest.fixture
def dsn(tmp_path: Path) -> Iterator[str]:
    with store_process(tmp_path / "clickhouse") as process:
        yield dsn_of(process)


def test_each_request_is_one_row_whoever_got_its_spans(run: Run, dsn: str) -> None:
    source = random.Random(SEED)
    print(f"WEIR_KILL_SEED={SEED}")
    processes = [run(store_dsn=dsn, spool_segment_bytes=64 * 1024, pipelines=number) for number in (1, 2)]
    for telemetry in processes:
        telemetry.ready()
    traces: list[Trace] = []
    for _ in range(KILLS):
        some = [Trace(source) for _ in range(TRACES_A_ROUND)]
        traces += some
        hands = [trace.dealt(3) for trace in some]
        for hand in range(3):
            body = merged([dealt[hand] for dealt in hands])
            send(processes, body, source)
            time.sleep(source.choice((0.0, 0.1, 0.5, 1.5)))  # so that parts are closed before others come
            if source.random() < 0.4:
                victim = source.choice(processes)
                if source.random() < 0.5:
                    victim.kill()
                    victim.start()
                else:
                    victim.kill_child("ingest.pipeline")
    for telemetry in processes:
        telemetry.ready()
        eventually(lambda telemetry=telemetry: telemetry.metric("weir_ingest_behind_seconds") == 0, "worked off")
    store = Store(dsn)
    try:
        expected = {trace.id.hex(): trace.row() for trace in traces}
        found = {trace_id: store.requests.request_rows(trace_id) for trace_id in expected}
        unlike = {
            trace_id: [row.service for row in rows] for trace_id, rows in found.items() if rows != [expected[trace_id]]
        }
        assert not unlike, f"{len(unlike)} of {len(traces)} traces, rows by service: {list(unlike.values())[:8]}"
        assert store.rows("SELECT count() FROM requests FINAL") == [(len(traces),)]
    finally:
        store.close()
