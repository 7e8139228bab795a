"""Spans that come after their trace was closed amend its rows. A row that then is no request is withdrawn."""

import json
import os
import time
from pathlib import Path

from controlplane.telemetry.core.spans import CLIENT, SERVER
from controlplane.telemetry.ledger import LedgerRow
from inference.contract import snapshot_file
from inference.contract.snapshot import Model, Pool, Route, Snapshot
from tests.support.telemetry.otlp_payloads import MS, pair, request
from tests.support.telemetry.process import Running
from tests.support.wait import eventually


def span(
    trace_id: bytes, span_id: bytes, parent: bytes, name: str, kind: int, after_ms: int, ms: int, **attributes: object
) -> bytes:
    made = request(1)
    scope = made.resource_spans[0].scope_spans[0]
    del scope.spans[:]
    start = NOW - 5000 * MS + after_ms * MS
    scope.spans.add(
        trace_id=trace_id, span_id=span_id, parent_span_id=parent, name=name, kind=kind, start_time_unix_nano=start,
        end_time_unix_nano=start + ms * MS, attributes=[pair(key.replace("__", "."), value) for key, value in attributes.items()],
    )  # fmt: skip
    return made.SerializeToString()


NOW = time.time_ns()


def rows(telemetry: Running, trace_id: bytes) -> list[LedgerRow]:
    with telemetry.store() as store:
        return store.requests.request_rows(trace_id.hex())


def test_a_late_client_span_and_a_lost_stream_are_joined_across_a_kill(restarted: Running) -> None:
    telemetry = restarted
    widened, client, server = os.urandom(16), os.urandom(8), os.urandom(8)
    telemetry.post(span(widened, server, client, "chat chat-small", SERVER, 10, 80, weir__request=True))
    eventually(lambda: len(rows(telemetry, widened)) == 1, "the server's span has a row")
    trace_id, lost = os.urandom(16), os.urandom(16)
    root, call, outer, inner = (os.urandom(8) for _ in range(4))
    said = {"triton__model_name": "chat_large", "triton__request_id": f"00-{trace_id.hex()}-{call.hex()}-01"}
    telemetry.post(span(lost, inner, outer, "chat_large", SERVER, 20, 10, **said))
    eventually(lambda: telemetry.metric("weir_ingest_behind_seconds") == 0, "the model's span is worked off")
    telemetry.kill()
    telemetry.start().ready()
    telemetry.post(span(widened, client, b"", "POST", CLIENT, 0, 100))
    eventually(lambda: rows(telemetry, widened)[0].e2e_ns == 100 * MS, "the row lasts as long as the client waited")
    [row] = rows(telemetry, widened)
    assert row.request_id == server.hex() and row.stages["network"] == 20 * MS
    telemetry.post(span(lost, outer, b"", "InferRequest", SERVER, 15, 70))
    telemetry.post(span(trace_id, call, root, "model.infer", CLIENT, 10, 80, weir__stage="model"))
    telemetry.post(span(trace_id, root, b"", "chat chat-large", SERVER, 0, 100, weir__request=True))
    eventually(lambda: [row.span_count for row in rows(telemetry, trace_id)] == [4], "all four spans are one request")
    eventually(lambda: rows(telemetry, lost) == [], "the lost trace is no request")


def test_triton_seen_before_the_gateway_is_no_request_of_its_own(telemetry: Running, shared_dir: Path) -> None:
    body = (shared_dir / "fixtures" / "triton" / "otlp-0.json").read_bytes()
    spans = [
        span
        for resource in json.loads(body)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]
    entry = next(span for span in spans if span["name"] == "InferRequest" and span.get("parentSpanId"))
    trace_id, call = bytes.fromhex(entry["traceId"]), bytes.fromhex(entry["parentSpanId"])
    telemetry.post(body, Content_Type="application/json")
    eventually(lambda: bool(rows(telemetry, trace_id)), "Triton's request has a row, as long as nothing else is known")
    start, end = int(entry["startTimeUnixNano"]), int(entry["endTimeUnixNano"])
    root = os.urandom(8)
    late = request(1)
    scope = late.resource_spans[0].scope_spans[0]
    del scope.spans[:]
    for span_id, parent, name, kind, room, attributes in (
        (root, b"", "chat chat-small", 2, 9 * MS, [pair("weir.request", True)]),
        (call, root, "model.infer", 3, 5 * MS, [pair("weir.stage", "model")]),
    ):
        scope.spans.add(
            trace_id=trace_id, span_id=span_id, parent_span_id=parent, name=name, kind=kind,
            start_time_unix_nano=start - room, end_time_unix_nano=end + room, attributes=attributes,
        )  # fmt: skip
    scope.scope.name = "weir.gateway"
    telemetry.post(late.SerializeToString())
    eventually(
        lambda: root.hex() in [row.request_id for row in rows(telemetry, trace_id)], "the gateway's request has a row"
    )
    eventually(
        lambda: entry["spanId"] not in [row.request_id for row in rows(telemetry, trace_id)], "Triton's is taken back"
    )
    eventually(lambda: telemetry.metric("weir_ingest_withdrawn_requests_total") >= 1, "it is counted")


def test_a_stream_is_a_request_once_it_has_ended_and_has_the_fleets_name_until_the_gateway_tells_of_it(
    telemetry: Running,
) -> None:
    pool = Pool("p", variant="v", region="eu", model_name="chat_large", model_version="1", endpoints=())
    models = (Model("chat-large", (Route("p"),)),)
    snapshot_file.write(telemetry.home / "snapshot.json", Snapshot(1, models, (pool,), tiers=(), tenants=()))
    trace_id, lost = os.urandom(16), os.urandom(16)
    root, call, outer, inner = (os.urandom(8) for _ in range(4))
    named = f"00-{trace_id.hex()}-{call.hex()}-01"
    for home in (trace_id, lost):
        triton = {"triton__model_name": "chat_large", "triton__request_id": named if home == lost else "7"}
        telemetry.post(span(home, inner, outer, "chat_large", SERVER, 20, 10, **triton))
    eventually(lambda: telemetry.metric("weir_ingest_behind_seconds") == 0, "the streams' first spans are worked off")
    assert rows(telemetry, trace_id) == rows(telemetry, lost) == [], "they have not ended"

    telemetry.post(span(trace_id, outer, call, "InferRequest", SERVER, 15, 70))
    eventually(lambda: [row.model for row in rows(telemetry, trace_id)] == ["chat-large"], "Triton alone tells of it")

    telemetry.post(span(trace_id, call, root, "model.infer", CLIENT, 10, 80, weir__stage="model"))
    telemetry.post(span(trace_id, root, b"", "chat chat-large", SERVER, 0, 100, weir__request=True))
    eventually(
        lambda: [row.request_id for row in rows(telemetry, trace_id)] == [root.hex()], "and the gateway after it"
    )
