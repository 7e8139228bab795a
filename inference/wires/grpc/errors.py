"""What can go wrong with a call.

GrpcError
 └── UnreachableError   the server never answered this call: another replica may be asked
      └── RefusedError  the server lives and did not begin this call: it may be asked again too
"""

from enum import IntEnum

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


class GrpcError(Exception):
    """The call ended with another status than OK."""

    def __init__(self, status: Status, message: str) -> None:
        self.status = status
        self.message = message[:LONGEST_MESSAGE]
        super().__init__(f"{status.name}: {self.message}")


class UnreachableError(GrpcError):
    """No connection, or it was lost, or the server refused the call before working on it."""

    def __init__(self, message: str) -> None:
        super().__init__(Status.UNAVAILABLE, message)


class RefusedError(UnreachableError):
    """The server did not begin this call, and lives: it takes no more calls at once, or closes this connection."""
