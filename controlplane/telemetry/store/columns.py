"""Spans and ledger rows as Arrow columns, and back: the tables' layout, named once. Pure."""

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from controlplane.telemetry.ledger.row import STAGES, LedgerRow
from controlplane.telemetry.spans import AttrValue, Event, Span

NO_PARENT = bytes(8)
_TYPED = "\x01"
_ATTRIBUTES = pa.map_(pa.string(), pa.string())

SPAN_SCHEMA = pa.schema(
    [
        pa.field("trace_id", pa.binary(16)),
        pa.field("span_id", pa.binary(8)),
        pa.field("parent_id", pa.binary(8)),
        pa.field("start_ns", pa.uint64()),
        pa.field("duration_ns", pa.uint64()),
        pa.field("kind", pa.uint8()),
        pa.field("status_code", pa.uint8()),
        pa.field("name", pa.string()),
        pa.field("service", pa.string()),
        pa.field("scope", pa.string()),
        pa.field("attributes", _ATTRIBUTES),
        pa.field("event_after", pa.list_(pa.int64())),
        pa.field("event_name", pa.list_(pa.string())),
        pa.field("event_attributes", pa.list_(_ATTRIBUTES)),
    ]
)
"""What `insert_span_columns` takes. Ids are raw bytes; a root's parent is 8 zero bytes; `event_after` is ns since `start_ns`; attribute
values are text, written as `attribute_text` writes them."""

_TEXT = (
    "ttft_definition", "status", "error_type", "error_stage", "operation", "service", "model", "variant", "pool", "replica", "region",
    "tier", "tenant", "cache_outcome", "adapter",
)  # fmt: skip
_PLAIN: tuple[tuple[str, pa.DataType], ...] = (
    ("entry_start_ns", pa.uint64()),
    ("start_ns", pa.uint64()),
    ("e2e_ns", pa.uint64()),
    ("unattributed_ns", pa.uint64()),
    ("prefill_ns", pa.uint64()),
    ("decode_ns", pa.uint64()),
    ("ttft_ns", pa.uint64()),
    ("http_status", pa.uint16()),
    ("prompt_tokens", pa.uint32()),
    ("output_tokens", pa.uint32()),
    ("stream", pa.bool_()),
    ("cold_start", pa.bool_()),
    ("cost_usd", pa.float64()),
    ("policy_version", pa.uint64()),
    ("span_count", pa.uint32()),
    *((name, pa.string()) for name in _TEXT),
)
REQUEST_SCHEMA = pa.schema(
    [
        pa.field("trace_id", pa.binary(16)),
        pa.field("request_id", pa.binary(8)),
        pa.field("version", pa.uint64()),
        *(pa.field(name, kind) for name, kind in _PLAIN),
        *(pa.field(f"stage_{stage}", pa.uint64()) for stage in STAGES),
        pa.field("prompt_bucket", pa.string()),
        pa.field("critical_path", pa.list_(pa.binary(8))),
    ]
)
"""What `insert_request_columns` takes: LedgerRow's fields (`end_ns` is `start_ns + e2e_ns`), a column `stage_NAME` for each stage, ids as raw bytes, and the version."""

SPAN_COLUMNS = tuple(SPAN_SCHEMA.names)
REQUEST_COLUMNS = ("end_ns", *(name for name in REQUEST_SCHEMA.names if name not in ("version", "prompt_bucket")))


def attribute_text(value: AttrValue) -> str:
    """A string as it is; any other type as \\x01 and its JSON, so that types survive and strings can be searched for."""
    if isinstance(value, str):
        return _TYPED + json.dumps(value) if value.startswith(_TYPED) else value
    return _TYPED + json.dumps(value, separators=(",", ":"))


def attribute_value(text: str) -> AttrValue:
    """The inverse of `attribute_text`."""
    return _tuples(json.loads(text[1:])) if text.startswith(_TYPED) else text


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _items(attributes: dict[str, AttrValue]) -> list[tuple[str, str]]:
    return [
        (key, value if type(value) is str and not value.startswith(_TYPED) else attribute_text(value))
        for key, value in attributes.items()
    ]


def span_table(spans: Sequence[Span]) -> pa.Table:
    """Spans as columns. Raises ValueError (pyarrow's) where an id has the wrong length or a time does not fit."""
    columns: dict[str, list[Any]] = {
        "trace_id": [span.trace_id for span in spans],
        "span_id": [span.span_id for span in spans],
        "parent_id": [span.parent_id or NO_PARENT for span in spans],
        "start_ns": [span.start_ns for span in spans],
        "duration_ns": [max(span.end_ns - span.start_ns, 0) for span in spans],
        "kind": [span.kind for span in spans],
        "status_code": [span.status_code for span in spans],
        "name": [span.name for span in spans],
        "service": [span.service for span in spans],
        "scope": [span.scope for span in spans],
        "attributes": [_items(span.attributes) for span in spans],
        "event_after": [[event.time_ns - span.start_ns for event in span.events] for span in spans],
        "event_name": [[event.name for event in span.events] for span in spans],
        "event_attributes": [[_items(event.attributes) for event in span.events] for span in spans],
    }
    return pa.table(columns, schema=SPAN_SCHEMA)


def span(values: Sequence[Any]) -> Span:
    """A row of SPAN_COLUMNS (ids as bytes, attributes as a dict of texts) as a Span."""
    (
        trace_id,
        span_id,
        parent_id,
        start_ns,
        duration_ns,
        kind,
        status,
        name,
        service,
        scope,
        attributes,
        after,
        names,
        event_attributes,
    ) = values
    return Span(
        trace_id, span_id, b"" if parent_id == NO_PARENT else parent_id, name, kind, start_ns, start_ns + duration_ns, status, service, scope,
        {key: attribute_value(text) for key, text in attributes.items()},
        tuple(
            Event(start_ns + delay, event, {key: attribute_value(text) for key, text in held.items()})
            for delay, event, held in zip(after, names, event_attributes, strict=True)
        ),
    )  # fmt: skip


def request_table(rows: Sequence[LedgerRow], version: int) -> pa.Table:
    """Ledger rows as columns, all with one version."""
    columns: dict[str, list[Any]] = {
        "trace_id": [bytes.fromhex(row.trace_id) for row in rows],
        "request_id": [bytes.fromhex(row.request_id) for row in rows],
        "version": [version] * len(rows),
        **{name: [getattr(row, name) for row in rows] for name, _ in _PLAIN},
        **{f"stage_{stage}": [row.stages[stage] for row in rows] for stage in STAGES},
        "prompt_bucket": [row.prompt_bucket for row in rows],
        "critical_path": [[bytes.fromhex(span_id) for span_id in row.critical_path] for row in rows],
    }
    return pa.table(columns, schema=REQUEST_SCHEMA)


def request(values: Sequence[Any]) -> LedgerRow:
    """A row of REQUEST_COLUMNS as a LedgerRow."""
    fields = dict(zip(REQUEST_COLUMNS, values, strict=True))
    fields["trace_id"] = fields["trace_id"].hex()
    fields["request_id"] = fields["request_id"].hex()
    fields["stages"] = {stage: fields.pop(f"stage_{stage}") for stage in STAGES}
    fields["critical_path"] = tuple(span_id.hex() for span_id in fields["critical_path"])
    return LedgerRow(**fields)
