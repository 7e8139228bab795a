"""The store's two families of failure: retryable with a delay, and permanent. No client exception leaves this package."""


class StoreUnavailable(Exception):  # noqa: N818  (what it says, not what it is)
    """The store did not take or answer this now; the same call may work after `retry_after_s` seconds."""

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class StoreError(Exception):
    """The store refused this call and will refuse it again. `code` is ClickHouse's, where it gave one."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class StoreInputError(StoreError, ValueError):
    """An argument (a dimension, a cursor, an identifier, a limit) that no query can be made of; names the field and the remedy."""


RETRYABLE_CODES = frozenset(
    {
        60,  # UNKNOWN_TABLE: our own tables, so they have not been made yet
        81,  # UNKNOWN_DATABASE
        159,  # TIMEOUT_EXCEEDED
        202,  # TOO_MANY_SIMULTANEOUS_QUERIES
        203,  # NO_FREE_CONNECTION
        209,  # SOCKET_TIMEOUT
        210,  # NETWORK_ERROR
        225,  # NO_ZOOKEEPER
        236,  # ABORTED: shutting down
        241,  # MEMORY_LIMIT_EXCEEDED
        242,  # TABLE_IS_READ_ONLY
        243,  # NOT_ENOUGH_SPACE
        252,  # TOO_MANY_PARTS
        279,  # ALL_CONNECTION_TRIES_FAILED
        285,  # TOO_FEW_LIVE_REPLICAS
        286,  # UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE
        319,  # UNKNOWN_STATUS_OF_INSERT
        439,  # CANNOT_SCHEDULE_TASK
        999,  # KEEPER_EXCEPTION
    }
)
"""ClickHouse error codes that say "later", not "never"."""
