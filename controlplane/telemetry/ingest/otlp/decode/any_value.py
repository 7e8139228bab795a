"""Reads attributes from the protobuf parser's objects."""

from base64 import b64encode
from collections.abc import Iterable

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from controlplane.telemetry.core.spans import AttrValue


def attributes(pairs: Iterable[KeyValue]) -> dict[str, AttrValue]:
    return {pair.key: value_of(pair.value) for pair in pairs}


def value_of(value: AnyValue) -> AttrValue:
    """A list becomes a tuple, a map a tuple of (key, value), bytes base64 as in OTLP/JSON, and a missing value an empty string."""
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return value.string_value
    if kind == "int_value":
        return value.int_value
    if kind == "double_value":
        return value.double_value
    if kind == "bool_value":
        return value.bool_value
    if kind == "array_value":
        return tuple([value_of(item) for item in value.array_value.values])
    if kind == "kvlist_value":
        return tuple([(pair.key, value_of(pair.value)) for pair in value.kvlist_value.values])
    if kind == "bytes_value":
        return b64encode(value.bytes_value).decode()
    return ""
