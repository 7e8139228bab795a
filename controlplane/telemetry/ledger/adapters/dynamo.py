"""Reads Dynamo's spans (ai-dynamo/dynamo, docs/observability/tracing.md and lib/runtime/src/logging.rs): `http-request` of the frontend,
with `method` and `uri`, and beneath it `handle_payload` of each worker. Both are of kind INTERNAL, as Rust's tracing makes them.

The frontend's own time (reading, templates, routing) is `gateway`. A worker's is `model`, unless its engine sends spans of its own.
"""

from controlplane.telemetry.core.spans import Span
from controlplane.telemetry.ledger.adapters import http
from controlplane.telemetry.ledger.attributes import text
from controlplane.telemetry.ledger.reading import Entry, Reading


def read(span: Span) -> Reading | None:
    attributes = span.attributes
    if span.name == "http-request" and "uri" in attributes and "method" in attributes:
        return _FRONTEND if http.operation({"url.path": text(attributes, "uri")}) else _OTHER
    if span.name == "handle_payload" and ("component" in attributes or "x_request_id" in attributes):
        return _WORKER
    return None


_FRONTEND = Reading("dynamo", Entry.SERVER, stage="gateway")
_WORKER = Reading("dynamo", Entry.ENGINE, stage="model")
_OTHER = Reading("dynamo")
