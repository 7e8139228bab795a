"""The span as adapters and the ledger see it: a plain value, the same for every protocol."""

from typing import Literal, NamedTuple

AttrValue = str | int | float | bool | tuple["AttrValue", ...]
Kind = Literal[0, 1, 2, 3, 4, 5]  # OTLP's SpanKind: unspecified, internal, server, client, producer, consumer

ROW_SPANS = 10_000
"""A trace's request rows are made of at most this many of its spans, the earliest, which bounds the cost of a trace. All are stored."""

INTERNAL: Kind = 1
SERVER: Kind = 2
CLIENT: Kind = 3
PRODUCER: Kind = 4
CONSUMER: Kind = 5


class Event(NamedTuple):
    """An event within a span, at `time_ns` since the Unix epoch."""

    time_ns: int
    name: str
    attributes: dict[str, AttrValue] = {}


class Link(NamedTuple):
    """A link to a span of this or another trace. Ids are raw bytes."""

    trace_id: bytes
    span_id: bytes
    attributes: dict[str, AttrValue] = {}


class Span(NamedTuple):
    """One OTLP span. Ids are raw bytes (16 and 8); times are nanoseconds since the Unix epoch; a root has `parent_id == b""`.

    A NamedTuple and not a dataclass: ingest makes tens of thousands a second.
    """

    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    name: str
    kind: int
    start_ns: int
    end_ns: int
    status_code: int  # 0 unset, 1 ok, 2 error
    service: str
    scope: str
    attributes: dict[str, AttrValue]
    events: tuple[Event, ...] = ()
    status_message: str = ""
    resource: dict[str, AttrValue] = {}  # attributes of its resource, which spans share
    links: tuple[Link, ...] = ()


class Caller(NamedTuple):
    """Where the spans of a lost trace belong: the trace, and the calling span. Raw ids."""

    trace_id: bytes
    parent_id: bytes
