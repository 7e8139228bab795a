"""Remote write's messages, built from their published field numbers through protobuf's descriptors, without generated code.

They are the fields of `prometheus.WriteRequest` that are read here; others are skipped.
Names differ from the published ones: only numbers and types are on the wire.
"""

from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_PACKAGE = "weir.remote_write"
_TYPES: dict[str, int] = {
    name: getattr(FieldDescriptorProto, f"TYPE_{name.upper()}")
    for name in ("double", "int64", "uint64", "uint32", "sint32", "sint64", "string", "int32")
}
Fields = dict[str, tuple[int, str]]
"""Number and type by name. `*` before the type means repeated. Types that are not scalar are messages."""

_HISTOGRAM: Fields = {
    "count_int": (1, "uint64"),
    "count_float": (2, "double"),
    "sum": (3, "double"),
    "scale": (4, "sint32"),
    "zero_threshold": (5, "double"),
    "zero_count_int": (6, "uint64"),
    "zero_count_float": (7, "double"),
    "negative_spans": (8, "*Span"),
    "negative_deltas": (9, "*sint64"),
    "negative_counts": (10, "*double"),
    "positive_spans": (11, "*Span"),
    "positive_deltas": (12, "*sint64"),
    "positive_counts": (13, "*double"),
    "reset_hint": (14, "int32"),
    "timestamp": (15, "int64"),
    "custom_bounds": (16, "*double"),
}
_MESSAGES: dict[str, Fields] = {
    "Label": {"name": (1, "string"), "value": (2, "string")},
    "Sample": {"value": (1, "double"), "timestamp": (2, "int64")},
    "Span": {"offset": (1, "sint32"), "length": (2, "uint32")},
    "Histogram": _HISTOGRAM,
    "Series": {
        "labels": (1, "*Label"),
        "samples": (2, "*Sample"),
        "histograms": (4, "*Histogram"),
    },
    "Request": {"series": (1, "*Series")},
}


def _build() -> dict[str, Any]:
    file = FileDescriptorProto(name="weir/remote_write.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            scalar = _TYPES.get(kind.lstrip("*"))
            added = message.field.add(
                name=field,
                number=number,
                label=FieldDescriptorProto.LABEL_REPEATED if kind[0] == "*" else FieldDescriptorProto.LABEL_OPTIONAL,
                type=scalar or FieldDescriptorProto.TYPE_MESSAGE,
            )
            if scalar is None:
                added.type_name = f".{_PACKAGE}.{kind.lstrip('*')}"
    pool = DescriptorPool()
    pool.Add(file)
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES}


_classes = _build()
Series, Request = _classes["Series"], _classes["Request"]
