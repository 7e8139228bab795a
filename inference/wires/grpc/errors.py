"""The errors of a gRPC call. `inference.core.errors` shows them among the others."""

from enum import IntEnum

from inference.core.errors import GatewayError, PermanentError, RetryableError

LONGEST_MESSAGE = 500
"""Characters of what a server says: it goes into logs and spans."""


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
        self.message = message[:LONGEST_MESSAGE]
        super().__init__(f"{status.name}: {self.message}")


class CallFailedError(GrpcError, PermanentError):
    """The status is neither OK nor UNAVAILABLE."""


class UnavailableError(GrpcError, RetryableError):
    """The status is UNAVAILABLE. Another replica may be called at once."""

    def __init__(self, message: str) -> None:
        super().__init__(Status.UNAVAILABLE, message)


class UnreachableError(UnavailableError):
    """There is no connection, or it was lost, or the server refused the call before working on it."""


class RefusedError(UnreachableError):
    """The server did not begin this call, and lives: it takes no more calls at once, or closes this connection."""


def error_of(status: Status, message: str) -> GrpcError:
    """The error of a call that ended with `status`."""
    return UnavailableError(message) if status is Status.UNAVAILABLE else CallFailedError(status, message)
