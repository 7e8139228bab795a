"""Reads spans of clients of Redis and similar caches, by the database conventions (`db.system.name`, formerly `db.system`)."""

from controlplane.telemetry.core.spans import SERVER, Span
from controlplane.telemetry.ledger.attributes import text
from controlplane.telemetry.ledger.reading import Reading

_CACHES = frozenset({"redis", "valkey", "dragonfly", "memcached"})
_LOOKUP = Reading("redis", stage="cache")


def read(span: Span) -> Reading | None:
    if span.kind != SERVER and text(span.attributes, "db.system.name", "db.system") in _CACHES:
        return _LOOKUP
    return None
