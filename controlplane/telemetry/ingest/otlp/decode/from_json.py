"""Reads OTLP/JSON as the message that it would be in protobuf: protobuf's JSON mapping, with ids in hex. Unknown fields are ignored."""

import json
import re
from base64 import b64encode
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from .malformed import MalformedError

MAX_VALUES = 2**20
"""Objects, lists and members of lists in one body. The smallest has two bytes and takes some hundred bytes of memory."""
MAX_DEPTH = 48
"""Nested lists and maps in an attribute. Protobuf's parser has about the same limit."""
_MESSAGES_DEEP = 2 * MAX_DEPTH + 6  # a list is two messages, and the first value is the sixth
_IDS = ("traceId", "spanId", "parentSpanId")
_MAX_REASON_CHARS = 300
_HALVES = re.compile(rb"\\u[dD][89a-fA-F]")
"""Escapes of surrogates, also of those that are pairs."""


def as_protobuf(body: bytes, kind: type[Message] = ExportTraceServiceRequest) -> bytes:
    """An export request of spans, or of another kind. Raises MalformedError where the body as a whole cannot be read."""
    if body.count(b"{") + body.count(b"[") + body.count(b",") > MAX_VALUES:
        raise MalformedError(f"the body holds more than {MAX_VALUES} JSON values: send smaller batches, or protobuf")
    message = kind()
    try:
        document = json.loads(_whole(body) if _HALVES.search(body) else body, object_hook=_mapped)
        if not isinstance(document, dict):
            raise TypeError("it is not an object")
        json_format.ParseDict(document, message, ignore_unknown_fields=True, max_recursion_depth=_MESSAGES_DEEP)
    except (json_format.ParseError, ValueError, RecursionError, TypeError, AttributeError) as error:
        reason = str(error).rpartition(" field: ")[2]  # without the path, which repeats at each level
        raise MalformedError(f"the body is not OTLP/JSON: {reason[:_MAX_REASON_CHARS]}") from error
    return message.SerializeToString()


def _whole(body: bytes) -> str:
    """The body with U+FFFD in place of each half of a surrogate pair, which is left where JavaScript cuts a text."""
    text = json.dumps(json.loads(body), ensure_ascii=False)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _mapped(value: dict[str, Any]) -> dict[str, Any]:
    """An object with its ids as protobuf's mapping has them, and without exemplars: one that cannot be read would cost the whole body."""
    value.pop("exemplars", None)
    for name in _IDS:
        if isinstance(digits := value.get(name), str):
            value[name] = b64encode(_id(digits)).decode()
    return value


def _id(digits: str) -> bytes:
    """Text that is not hex becomes an id of the wrong length, which is refused."""
    try:
        return bytes.fromhex(digits) if digits.isalnum() or not digits else b"?"
    except ValueError:
        return b"?"
