"""Prepares the exemplars of an OTLP/JSON body for protobuf's JSON parser.

OTLP writes their ids in hexadecimal, and that parser expects base64. It also refuses a whole body for one exemplar that it cannot read.
https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
"""

from base64 import b64encode
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.metrics.v1.metrics_pb2 import Exemplar

from .exemplars import UNREADABLE, Exemplars

_IDS = ("traceId", "trace_id", "spanId", "span_id")


def prepare(body: Any, into: Exemplars) -> None:
    """Change `body`, which is parsed JSON: ids become base64, and invalid exemplars are dropped and counted."""
    waiting = [body]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            listed = part.get("exemplars")
            if isinstance(listed, list):
                part["exemplars"] = kept = [exemplar for exemplar in listed if _readable(exemplar)]
                into.drop(UNREADABLE, len(listed) - len(kept))
            waiting += [value for name, value in part.items() if name != "exemplars"]


def _readable(exemplar: Any) -> bool:
    try:
        for name in _IDS:
            if exemplar.get(name) is not None:
                exemplar[name] = b64encode(bytes.fromhex(exemplar[name])).decode()
        json_format.ParseDict(exemplar, Exemplar(), ignore_unknown_fields=True)
    except (json_format.ParseError, ValueError, TypeError, AttributeError, RecursionError):
        return False
    return True
