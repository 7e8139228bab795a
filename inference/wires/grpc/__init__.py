"""A gRPC client over HTTP/2 that costs tens of microseconds per call; grpc.aio costs most of a millisecond.

`call` is one call, `connection` one TCP connection with its calls, and `channel` connects, and connects again when a
connection is lost. `inference.core.http2` is the wire format.
"""

from inference.wires.grpc.call import Call
from inference.wires.grpc.channel import Channel
from inference.wires.grpc.errors import (
    CallFailedError,
    GrpcError,
    RefusedError,
    Status,
    UnavailableError,
    UnreachableError,
)

__all__ = [
    "Call",
    "CallFailedError",
    "Channel",
    "GrpcError",
    "RefusedError",
    "Status",
    "UnavailableError",
    "UnreachableError",
]
