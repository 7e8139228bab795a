"""Reads the spans that an OpenTelemetry Collector wrote with its ClickHouse exporter.

It reads the exporter's own tables: `otel_traces`, and `otel_traces_trace_id_ts` with the times of each trace. The exporter writes every
attribute as text. A text that reads as an integer, a float, `true`, `false` or a JSON list becomes one, as the ledger's adapters need
it, even if it was sent as text.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.telemetry.core.spans import AttrValue, Event, Link, Span

from ..client import StorePart

_KINDS = {"INTERNAL": 1, "SERVER": 2, "CLIENT": 3, "PRODUCER": 4, "CONSUMER": 5}
_STATUSES = {"OK": 1, "ERROR": 2}
_INTEGER = re.compile(r"-?(0|[1-9]\d{0,18})")
_FLOAT = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")  # no leading zeros: 007 is a name
_COLUMNS = (
    "lower(TraceId), lower(SpanId), lower(ParentSpanId), SpanName, SpanKind, StatusCode, ServiceName, ScopeName,"
    " toUnixTimestamp64Nano(Timestamp), toUInt64(Duration), SpanAttributes,"
    " arrayMap(at -> toUnixTimestamp64Nano(at), `Events.Timestamp`), `Events.Name`, `Events.Attributes`,"
    " StatusMessage, ResourceAttributes, `Links.TraceId`, `Links.SpanId`, `Links.Attributes`"
)


class OtelReader(StorePart):
    """Reads the exporter's tables if the DSN names them (`?otel=otel_traces`, or `?otel=database.table`)."""

    def otel_spans(self, trace_id: str) -> list[Span]:
        """The spans of a trace, by start and without repeats. Empty if the DSN names no table."""
        table = self._connection.dsn.otel
        if not table:
            return []
        of_trace = "TraceId = {trace:String}"
        rows = self._connection.rows(
            f"SELECT {_COLUMNS} FROM {table} WHERE {of_trace}"
            f" AND Timestamp >= (SELECT min(Start) FROM {table}_trace_id_ts WHERE {of_trace})"
            f" AND Timestamp <= (SELECT max(End) + 1 FROM {table}_trace_id_ts WHERE {of_trace})"
            " ORDER BY Duration DESC LIMIT 1 BY SpanId",
            {"trace": trace_id},
        )
        return sorted(map(span_of, rows), key=lambda span: (span.start_ns, span.span_id))


def span_of(row: Sequence[Any]) -> Span:
    """A row of `_COLUMNS` as a Span."""
    trace_id, span_id, parent_id, name, kind, status, service, scope, start_ns, duration_ns = row[:10]
    attributes, event_times, event_names, event_attributes = row[10:14]
    message, resource, link_traces, link_spans, link_attributes = row[14:]
    return Span(
        trace_id=bytes.fromhex(trace_id),
        span_id=bytes.fromhex(span_id),
        parent_id=bytes.fromhex(parent_id),
        name=name,
        kind=_KINDS.get(kind.upper().removeprefix("SPAN_KIND_"), 0),
        start_ns=start_ns,
        end_ns=start_ns + duration_ns,
        status_code=_STATUSES.get(status.upper().removeprefix("STATUS_CODE_"), 0),
        service=service,
        scope=scope,
        attributes=_typed(attributes),
        events=tuple(
            Event(time_ns, event, _typed(texts))
            for time_ns, event, texts in zip(event_times, event_names, event_attributes, strict=True)
        ),
        status_message=message,
        resource=_typed(resource),
        links=tuple(
            Link(bytes.fromhex(linked), bytes.fromhex(span_id), _typed(texts))
            for linked, span_id, texts in zip(link_traces, link_spans, link_attributes, strict=True)
        ),
    )


def _typed(attributes: Mapping[str, str]) -> dict[str, AttrValue]:
    return {key: _value(text) for key, text in attributes.items()}


def _value(text: str) -> AttrValue:
    if text in ("true", "false"):
        return text == "true"
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if text.startswith("[") and text.endswith("]"):
        try:
            return tuple(item if isinstance(item, str | int | float) else json.dumps(item) for item in json.loads(text))
        except ValueError:
            return text
    return text
