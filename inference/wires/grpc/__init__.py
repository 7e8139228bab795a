"""A gRPC client over HTTP/2 that costs tens of microseconds per call; grpc.aio costs most of a millisecond.

`frames` is the wire format, `connection` one TCP connection and its calls, `channel` the persistent thing that
reconnects.
"""

from inference.wires.grpc.channel import Channel
from inference.wires.grpc.connection import Call
from inference.wires.grpc.errors import GrpcError, RefusedError, Status, UnreachableError

__all__ = ["Call", "Channel", "GrpcError", "RefusedError", "Status", "UnreachableError"]
