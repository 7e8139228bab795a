"""Converts spans and ledger rows to Arrow columns and back. Names the columns of both tables."""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from controlplane.telemetry.core.spans import AttrValue, Event, Link, Span
from controlplane.telemetry.ledger.row import Attempt, LedgerRow
from inference.contract.stages import STAGES

NO_PARENT = bytes(8)
_TYPED = "\x01"
_ATTRIBUTES = pa.map_(pa.string(), pa.string())
_HASHES = pa.list_(pa.uint64())

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
        pa.field("status_message", pa.string()),
        pa.field("resource", pa.dictionary(pa.int32(), pa.string())),
        pa.field("links", pa.string()),
    ]
)
"""What `insert_span_columns` takes. Ids are raw bytes; a root's parent is 8 zero bytes; `event_after` is ns since `start_ns`; attribute
values are text, written as `attribute_text` writes them. `resource` and `links` are JSON, empty where there are none."""

_TEXT = (
    "ttft_definition", "status", "error_type", "error_stage", "operation", "service", "model", "variant", "pool", "replica", "region",
    "tier", "tenant", "cache_outcome", "adapter", "policy_rule", "degraded",
    "caller_region", "prompt_hash", "answer_hash", "guard",
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
    ("cached_tokens", pa.uint32()),
    ("output_tokens", pa.uint32()),
    ("stream", pa.bool_()),
    ("cold_start", pa.bool_()),
    ("cost_usd", pa.float64()),
    ("policy_version", pa.uint64()),
    ("span_count", pa.uint32()),
    ("unmeasured", pa.bool_()),
    ("repeated", pa.bool_()),
    ("can_wait", pa.bool_()),
    ("idempotency_key", pa.uint32()),
    ("prompt_bytes", pa.uint32()),
    ("answer_bytes", pa.uint32()),
    *((name, pa.string()) for name in _TEXT),
)
LABEL_COLUMNS = 4
ATTEMPT: dict[str, pa.DataType] = {
    "pool": pa.string(),
    "replica": pa.string(),
    "outcome": pa.string(),
    "error_type": pa.string(),
    "retried": pa.bool_(),
    "ns": pa.uint64(),
    "model_ns": pa.uint64(),
}
"""Fields of `Attempt`, in order: the column `attempt_NAME` has that field of each of a request's attempts."""
REQUEST_SCHEMA = pa.schema(
    [
        pa.field("trace_id", pa.binary(16)),
        pa.field("request_id", pa.binary(8)),
        pa.field("version", pa.uint64()),
        *(pa.field(name, kind) for name, kind in _PLAIN),
        *(pa.field(f"stage_{stage}", pa.uint64()) for stage in STAGES),
        pa.field("prompt_bucket", pa.string()),
        pa.field("critical_path", pa.list_(pa.binary(8))),
        *(pa.field(f"attempt_{name}", pa.list_(kind)) for name, kind in ATTEMPT.items()),
        *(pa.field(f"labels_{number}", _HASHES) for number in range(LABEL_COLUMNS)),
        pa.field("attributes", _HASHES),
    ]
)
"""What `insert_request_columns` takes: LedgerRow's fields (`end_ns` is `start_ns + e2e_ns`), a column `stage_NAME` for each
stage, ids as raw bytes, labels as `label_columns` splits them, and the version."""

PARTS = {**{stage: f"stage_{stage}" for stage in STAGES}, "unattributed": "unattributed_ns"}
"""Column by part of a request's time: these sum to `e2e_ns`."""

SPAN_COLUMNS = tuple(SPAN_SCHEMA.names)
_NOT_READ = {"version", "prompt_bucket", "attributes", *(f"labels_{number}" for number in range(LABEL_COLUMNS))}
REQUEST_COLUMNS = ("end_ns", *(name for name in REQUEST_SCHEMA.names if name not in _NOT_READ))


def label_column(label_hash: int) -> str:
    """The column that has a label's hash."""
    return f"labels_{label_hash % LABEL_COLUMNS}"


def label_columns(labels: pa.ListArray) -> dict[str, pa.ListArray]:
    """Hashes of labels (a list a row), split by the columns that have them."""
    tokens = labels.flatten().to_numpy()
    lengths = labels.value_lengths().to_numpy()
    which = (tokens % LABEL_COLUMNS).astype(np.uint8)
    cells = np.repeat(np.arange(len(lengths)) * LABEL_COLUMNS, lengths) + which
    counts = np.bincount(cells, minlength=len(lengths) * LABEL_COLUMNS).reshape(-1, LABEL_COLUMNS)
    offsets = np.zeros((len(lengths) + 1, LABEL_COLUMNS), np.int32)
    np.cumsum(counts, axis=0, out=offsets[1:])
    parted = np.split(tokens[np.argsort(which, kind="stable")], np.cumsum(offsets[-1])[:-1])
    return {
        f"labels_{number}": pa.ListArray.from_arrays(pa.array(np.ascontiguousarray(offsets[:, number])), pa.array(part))
        for number, part in enumerate(parted)
    }


def attribute_text(value: AttrValue) -> str:
    """A string as it is; any other type as \\x01 and its JSON, so that types survive and strings can be searched for."""
    if isinstance(value, str):
        return _TYPED + json.dumps(value) if value.startswith(_TYPED) else value
    if type(value) is int:
        return f"{_TYPED}{value}"  # as json.dumps writes it, in a tenth of the time
    if type(value) is float and value - value == 0:  # finite
        return f"{_TYPED}{value!r}"
    return _TYPED + json.dumps(value, separators=(",", ":"))


def attribute_value(text: str) -> AttrValue:
    """The inverse of `attribute_text`."""
    return _tuples(json.loads(text[1:])) if text.startswith(_TYPED) else text


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _maps(maps: Iterable[Mapping[str, AttrValue]]) -> pa.Array:
    """A column of maps, built from flat lists: pyarrow converts those twenty times as fast as lists of lists of pairs."""
    offsets, keys, values = [0], list[str](), list[str]()
    for attributes in maps:
        keys += attributes
        values += [
            value if type(value) is str and value[:1] != _TYPED else attribute_text(value)
            for value in attributes.values()
        ]
        offsets.append(len(keys))
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), _texts(keys), _texts(values))


def _texts(values: Sequence[str]) -> pa.Array:
    """Text as UTF-8. A lone surrogate, which JSON can carry and UTF-8 cannot, becomes a question mark."""
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:
        return pa.array([value.encode("utf-8", "replace").decode() for value in values], pa.string())


def _lists(sizes: Iterable[int], values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, *accumulate(sizes)], pa.int32()), values)


def span_table(spans: Sequence[Span]) -> pa.Table:
    """Spans as columns. An end before the start becomes the start; a kind or status out of OTLP's range becomes unspecified.

    Raises ValueError, TypeError or OverflowError (pyarrow's) where an id has the wrong length or a time does not fit.
    """
    sizes = [len(span.events) for span in spans]
    events = [(span.start_ns, event) for span in spans for event in span.events]
    return pa.table(
        {
            "trace_id": pa.array([span.trace_id for span in spans], pa.binary(16)),
            "span_id": pa.array([span.span_id for span in spans], pa.binary(8)),
            "parent_id": pa.array([span.parent_id or NO_PARENT for span in spans], pa.binary(8)),
            "start_ns": pa.array([span.start_ns for span in spans], pa.uint64()),
            "duration_ns": pa.array([max(span.end_ns - span.start_ns, 0) for span in spans], pa.uint64()),
            "kind": pa.array([span.kind if 0 <= span.kind <= 5 else 0 for span in spans], pa.uint8()),
            "status_code": pa.array(
                [span.status_code if 0 <= span.status_code <= 2 else 0 for span in spans], pa.uint8()
            ),
            "name": _texts([span.name for span in spans]),
            "service": _texts([span.service for span in spans]),
            "scope": _texts([span.scope for span in spans]),
            "attributes": _maps(span.attributes for span in spans),
            "event_after": _lists(
                sizes, pa.array([_signed(event.time_ns - start) for start, event in events], pa.int64())
            ),
            "event_name": _lists(sizes, _texts([event.name for _, event in events])),
            "event_attributes": _lists(sizes, _maps(event.attributes for _, event in events)),
            "status_message": _texts([span.status_message for span in spans]),
            "resource": _texts(
                [json_text(span.resource) if span.resource else "" for span in spans]
            ).dictionary_encode(),
            "links": _texts([links_text(span.links) for span in spans]),
        },
        schema=SPAN_SCHEMA,
    )


def _signed(delay_ns: int) -> int:
    return max(-(2**63), min(delay_ns, 2**63 - 1))


def span(values: Sequence[Any]) -> Span:
    """A row of SPAN_COLUMNS (ids as bytes, attributes as a dict of texts) as a Span."""
    trace_id, span_id, parent_id, start_ns, duration_ns, kind, status_code, name, service, scope = values[:10]
    attributes, after, names, event_attributes, status_message, resource, links = values[10:]
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=b"" if parent_id == NO_PARENT else parent_id,
        name=name,
        kind=kind,
        start_ns=start_ns,
        end_ns=start_ns + duration_ns,
        status_code=status_code,
        service=service,
        scope=scope,
        attributes=_attributes(attributes),
        events=tuple(
            Event(start_ns + delay, event, _attributes(attributes_of_event))
            for delay, event, attributes_of_event in zip(after, names, event_attributes, strict=True)
        ),
        status_message=status_message,
        resource=_resource(resource),
        links=_links(links),
    )


def links_text(links: Sequence[Link]) -> str:
    """Links as they are stored."""
    if not links:
        return ""
    return json_text([[link.trace_id.hex(), link.span_id.hex(), link.attributes] for link in links])


def _links(text: str) -> tuple[Link, ...]:
    if not text:
        return ()
    return tuple(
        Link(bytes.fromhex(trace_id), bytes.fromhex(span_id), _object(attributes))
        for trace_id, span_id, attributes in json.loads(text)
    )


@lru_cache(4096)
def _resource(text: str) -> dict[str, AttrValue]:
    """Spans share it: it must not be changed."""
    return _object(json.loads(text)) if text else {}


def _object(attributes: dict[str, Any]) -> dict[str, AttrValue]:
    return {key: _tuples(value) for key, value in attributes.items()}


def json_text(value: object) -> str:
    """As `resource` and `links` are stored."""
    return json.dumps(value, separators=(",", ":"))


def table_spans(table: pa.Table) -> list[Span]:
    """The inverse of `span_table`."""
    rows = zip(*(table[name].to_pylist() for name in SPAN_COLUMNS), strict=True)
    return [
        span([*row[:10], dict(row[10]), *row[11:13], [dict(pairs) for pairs in row[13]], *row[14:]]) for row in rows
    ]


def _attributes(texts: Mapping[str, str]) -> dict[str, AttrValue]:
    return {key: attribute_value(text) for key, text in texts.items()}


def request_table(rows: Sequence[LedgerRow], version: int | Sequence[int]) -> pa.Table:
    """Ledger rows as columns, all with one version or each with its own."""
    columns: dict[str, Sequence[Any]] = {
        "trace_id": [bytes.fromhex(row.trace_id) for row in rows],
        "request_id": [bytes.fromhex(row.request_id) for row in rows],
        "version": [version] * len(rows) if isinstance(version, int) else version,
        **{name: [getattr(row, name) for row in rows] for name, _ in _PLAIN},
        **{f"stage_{stage}": [row.stages[stage] for row in rows] for stage in STAGES},
        "prompt_bucket": [row.prompt_bucket for row in rows],
        "critical_path": [[bytes.fromhex(span_id) for span_id in row.critical_path] for row in rows],
        "attributes": [row.attribute_index for row in rows],
    }
    built = label_columns(pa.array([row.label_index for row in rows], _HASHES)) | _attempt_columns(rows)
    return pa.table(
        {
            field.name: built[field.name]
            if field.name in built
            else _texts(columns[field.name])
            if field.type == pa.string()
            else pa.array(columns[field.name], field.type)
            for field in REQUEST_SCHEMA
        },
        schema=REQUEST_SCHEMA,
    )


def _attempt_columns(rows: Sequence[LedgerRow]) -> dict[str, pa.Array]:
    sizes, attempts = [len(row.attempts) for row in rows], [attempt for row in rows for attempt in row.attempts]
    columns = {name: [getattr(attempt, name) for attempt in attempts] for name in ATTEMPT}
    return {
        f"attempt_{name}": _lists(
            sizes, _texts(columns[name]) if kind == pa.string() else pa.array(columns[name], kind)
        )
        for name, kind in ATTEMPT.items()
    }


def request(values: Sequence[Any]) -> LedgerRow:
    """A row of REQUEST_COLUMNS as a LedgerRow."""
    fields = dict(zip(REQUEST_COLUMNS, values, strict=True))
    fields["trace_id"] = fields["trace_id"].hex()
    fields["request_id"] = fields["request_id"].hex()
    fields["stages"] = {stage: fields.pop(f"stage_{stage}") for stage in STAGES}
    attempts = zip(*(fields.pop(f"attempt_{name}") for name in ATTEMPT), strict=True)
    fields["attempts"] = tuple(Attempt(*values_of_attempt) for values_of_attempt in attempts)
    fields["critical_path"] = tuple(span_id.hex() for span_id in fields["critical_path"])
    return LedgerRow(**fields)
