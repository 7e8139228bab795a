"""OTLP bodies as values: spans for the pipeline, counts for the answer to the sender.

What `check` accepts, `spans` reads: a body that was acknowledged never fails later.
"""

from collections import Counter
from collections.abc import Iterator

from controlplane.telemetry.spans import Span
from controlplane.telemetry.spool.frame import Kind

from . import from_json, from_protobuf
from .malformed import Malformed

Rejected = Counter[str]
"""How many spans were refused, by reason."""

__all__ = ["Malformed", "Rejected", "check", "count_log_records", "spans"]


def check(kind: Kind, body: bytes) -> Rejected:
    """The spans that would be refused. Raises Malformed where the body as a whole cannot be read."""
    return from_protobuf.check(body) if kind is Kind.TRACES_PROTOBUF else from_json.check(body)


def spans(kind: int, body: bytes, shard: int = 0, shards: int = 1) -> Iterator[tuple[Span, int]]:
    """The body's spans without those that `check` refuses, each with its size in the body: the traces of one shard alone.

    A trace is its last byte's, modulo `shards`. Raises Malformed where `check` does.
    """
    found = from_protobuf.spans(body, shard, shards) if kind == Kind.TRACES_PROTOBUF else from_json.spans(body)
    return found if shards == 1 else (pair for pair in found if pair[0].trace_id[15] % shards == shard)


def count_log_records(body: bytes, *, json: bool) -> int:
    """How many log records the body holds. Raises Malformed."""
    return from_json.count_log_records(body) if json else from_protobuf.count_log_records(body)
