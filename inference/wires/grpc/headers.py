"""The headers of gRPC over HTTP/2, as in https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md."""

from collections.abc import Mapping

from inference.wires.grpc import http2 as h2
from inference.wires.grpc.errors import CallFailedError, GrpcError, Status, error_of, error_of_http


def request_headers(scheme: bytes, authority: bytes, path: bytes) -> bytes:
    """The encoded headers that every call to `path` begins with."""
    return b"".join(
        h2.literal(name, value)
        for name, value in (
            (b":method", b"POST"),
            (b":scheme", scheme),
            (b":path", path),
            (b":authority", authority),
            (b"te", b"trailers"),
            (b"content-type", b"application/grpc"),
            (b"user-agent", b"weir-gateway"),
        )
    )


def informational(headers: Mapping[bytes, bytes]) -> bool:
    """Whether the answer's own headers are still to come."""
    return headers.get(b":status", b"").startswith(b"1")


def refusal(headers: Mapping[bytes, bytes]) -> GrpcError | None:
    """Why these first headers are not the beginning of a gRPC answer."""
    status = headers.get(b":status", b"200")
    if status != b"200":
        return error_of_http(status)
    if not headers.get(b"content-type", b"").startswith(b"application/grpc"):
        return CallFailedError(Status.UNKNOWN, "the answer is not gRPC")
    return None


def outcome(headers: Mapping[bytes, bytes]) -> GrpcError | None:
    """How the call ended, by its last headers."""
    status = headers.get(b":status", b"200")
    if status != b"200":
        return error_of_http(status)
    code = headers.get(b"grpc-status", b"2")
    if code == b"0":
        return None
    known = Status(int(code)) if code.isdigit() and int(code) <= Status.UNAUTHENTICATED else Status.UNKNOWN
    return error_of(known, h2.grpc_message(headers.get(b"grpc-message", b"")))
