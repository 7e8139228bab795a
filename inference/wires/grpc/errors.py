"""The statuses of a gRPC call. A call that was never answered raises the errors of `inference.core.backend_errors`."""

from enum import IntEnum

from inference.contract.errors import GatewayError, PermanentError, RetryableError
from inference.core.backend_errors import MAX_MESSAGE_CHARS


class Status(IntEnum):
    """gRPC status codes, as in https://grpc.github.io/grpc/core/md_doc_statuscodes.html."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class GrpcError(GatewayError):
    """The call ended with another status than OK."""

    def __init__(self, status: Status, message: str) -> None:
        self.status = status
        self.message = message[:MAX_MESSAGE_CHARS]
        super().__init__(f"{status.name}: {self.message}")


class CallFailedError(GrpcError, PermanentError):
    """The status is neither OK nor UNAVAILABLE."""


class UnavailableError(GrpcError, RetryableError):
    """The status is UNAVAILABLE. Another replica may be called at once."""

    def __init__(self, message: str) -> None:
        super().__init__(Status.UNAVAILABLE, message)


def error_of(status: Status, message: str) -> GrpcError:
    """The error of a call that ended with `status`."""
    return UnavailableError(message) if status is Status.UNAVAILABLE else CallFailedError(status, message)


_OF_HTTP = {
    b"400": Status.INTERNAL,
    b"401": Status.UNAUTHENTICATED,
    b"403": Status.PERMISSION_DENIED,
    b"404": Status.UNIMPLEMENTED,
    b"429": Status.UNAVAILABLE,
    b"502": Status.UNAVAILABLE,
    b"503": Status.UNAVAILABLE,
    b"504": Status.UNAVAILABLE,
}
_OF_RESET = {8: Status.CANCELLED, 11: Status.RESOURCE_EXHAUSTED, 12: Status.PERMISSION_DENIED}


def error_of_http(status: bytes) -> GrpcError:
    """The error of a call that something else than a gRPC server answered with an HTTP status.

    As in https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md.
    """
    return error_of(_OF_HTTP.get(status, Status.UNKNOWN), f"HTTP status {status.decode('ascii', 'replace')}")


def error_of_reset(code: int) -> GrpcError:
    """The error of a call whose HTTP/2 stream was reset, as in gRPC's doc/PROTOCOL-HTTP2.md ("Errors")."""
    return error_of(_OF_RESET.get(code, Status.INTERNAL), f"reset, code {code}")
