"""A gRPC client over HTTP/2 that costs tens of microseconds per call; grpc.aio costs most of a millisecond.

`call` is one call, `connection` one TCP connection with its calls, and `channel` connects, and connects again when a
connection is lost. `inference.wires.grpc.http2` is the wire format. tests/inference/wires/grpc runs gRPC's published interop cases.
"""

from inference.core.backend_errors import RefusedError, UnreachableError
from inference.wires.grpc.call import Call
from inference.wires.grpc.channel import Channel
from inference.wires.grpc.errors import (
    CallFailedError,
    GrpcError,
    Status,
    UnavailableError,
)
from inference.wires.grpc.keepalive import Keepalive
from inference.wires.grpc.tls import Tls

__all__ = [
    "Call",
    "CallFailedError",
    "Channel",
    "GrpcError",
    "Keepalive",
    "RefusedError",
    "Status",
    "Tls",
    "UnavailableError",
    "UnreachableError",
]
