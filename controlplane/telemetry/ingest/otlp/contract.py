"""The rules of OTLP 1.11 for a receiver: which requests are accepted, and what is answered.

https://opentelemetry.io/docs/specs/otlp/#otlphttp-response, https://opentelemetry.io/docs/specs/otlp/#failures
"""

from dataclasses import dataclass
from enum import Enum, StrEnum

import msgspec
from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

OVERLOADED_RETRY_S = 1.0


class Signal(StrEnum):
    TRACES = "traces"
    METRICS = "metrics"


class Encoding(Enum):
    PROTOBUF = "application/x-protobuf"
    JSON = "application/json"


class Code(Enum):
    """The values of google.rpc.Code that are used here."""

    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


class RefusedError(Exception):
    """A request that is not accepted. Retryable where `retry_after_s` is set, otherwise permanent."""

    def __init__(self, http: int, code: Code, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.http, self.code, self.message, self.retry_after_s = http, code, message, retry_after_s


def bad_data(message: str) -> RefusedError:
    return RefusedError(400, Code.INVALID_ARGUMENT, message)


def too_large(limit: int) -> RefusedError:
    return RefusedError(
        413,
        Code.RESOURCE_EXHAUSTED,
        f"the body is larger than {limit} bytes, decompressed (WEIR_OTLP_MAX_BODY_BYTES): send smaller batches",
    )


def overloaded(message: str) -> RefusedError:
    """Senders send faster than the receiver can work."""
    return RefusedError(429, Code.UNAVAILABLE, message, OVERLOADED_RETRY_S)


def unavailable(message: str, retry_after_s: float) -> RefusedError:
    """The receiver cannot store anything now."""
    return RefusedError(503, Code.UNAVAILABLE, message, retry_after_s)


def unauthenticated() -> RefusedError:
    return RefusedError(
        401, Code.UNAUTHENTICATED, "send the ingest token as `Authorization: Bearer …` (WEIR_OTLP_TOKEN)"
    )


@dataclass(frozen=True, slots=True)
class Taken:
    """How much of an accepted request was refused. Nothing for full success."""

    rejected: int = 0
    message: str = ""


def encoding_of(content_type: str) -> Encoding:
    """The encoding by its media type; parameters such as a charset are ignored. Raises RefusedError (415)."""
    media = content_type.partition(";")[0].strip().lower()
    try:
        return Encoding(media)
    except ValueError:
        raise RefusedError(
            415,
            Code.INVALID_ARGUMENT,
            f"content type {media[:80]!r} is not served: send application/x-protobuf or application/json",
        ) from None


def is_gzip(content_encoding: str) -> bool:
    """Raises RefusedError (415) for any encoding but gzip and identity."""
    name = content_encoding.strip().lower()
    if name in ("", "identity"):
        return False
    if name == "gzip":
        return True
    raise RefusedError(
        415, Code.INVALID_ARGUMENT, f"content encoding {name[:80]!r} is not served: send gzip or leave it out"
    )


def check_length(content_length: int | None, limit: int) -> None:
    """Refuse (413) a body by its announced length, before it is read."""
    if content_length is not None and content_length > limit:
        raise too_large(limit)


_RESPONSES = {
    Signal.TRACES: (ExportTraceServiceResponse, "rejected_spans", "rejectedSpans"),
    Signal.METRICS: (ExportMetricsServiceResponse, "rejected_data_points", "rejectedDataPoints"),
}


def response(signal: Signal, encoding: Encoding, taken: Taken) -> bytes:
    """The body of a 200. On full success `partial_success` stays unset. A message without refused items is a warning."""
    message, field, key = _RESPONSES[signal]
    if not taken.message:
        return b"{}" if encoding is Encoding.JSON else b""
    if encoding is Encoding.JSON:
        # an int64 is a string in protobuf's JSON
        return msgspec.json.encode({"partialSuccess": {key: str(taken.rejected), "errorMessage": taken.message}})
    partial = {field: taken.rejected, "error_message": taken.message}
    return bytes(message(partial_success=partial).SerializeToString())


def status(refused: RefusedError, encoding: Encoding) -> bytes:
    """The `google.rpc.Status` of a 4xx or 5xx."""
    if encoding is Encoding.JSON:
        return msgspec.json.encode({"code": refused.code.value, "message": refused.message})
    return bytes(Status(code=refused.code.value, message=refused.message).SerializeToString())


def status_details(refused: RefusedError) -> bytes:
    """gRPC's `grpc-status-details-bin`, with RetryInfo where the sender should retry."""
    details = []
    if refused.retry_after_s is not None:
        packed = Any()
        packed.Pack(RetryInfo(retry_delay=Duration(nanos=0, seconds=round(refused.retry_after_s))))
        details.append(packed)
    return bytes(Status(code=refused.code.value, message=refused.message, details=details).SerializeToString())


def summary(rejected: dict[str, int], noun: str = "spans") -> Taken:
    """The answer about refused parts: each reason with its count, the most frequent first."""
    total = sum(rejected.values())
    reasons = sorted(rejected.items(), key=lambda item: -item[1])
    message = f"{total} {noun} refused: " + "; ".join(f"{count} × {why}" for why, count in reasons) if total else ""
    return Taken(total, message)
