"""The errors of the store, in two families. No exception of a client library leaves this package.

StoreUnavailableError      retryable: the same call may succeed after `retry_after_s`
└── StoreLimitError        a query exceeded the store's memory or time; a smaller one may succeed now
StoreError                 permanent: the same call will fail again
├── StoreInputError        an argument that no query can be made of
├── StoreSchemaError       schema files that contradict each other
└── EngineError            a statement that the embedded engine refused
"""


class StoreUnavailableError(Exception):
    """Retryable: the store is away, busy or full. The same call may succeed after `retry_after_s` seconds."""

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class StoreLimitError(StoreUnavailableError):
    """Retryable: the query exceeded the memory or time that the store allows. A smaller query may succeed at once."""


class StoreError(Exception):
    """Permanent: the store refused this call and will refuse it again. `code` is ClickHouse's error code, if it sent one."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class StoreInputError(StoreError, ValueError):
    """Permanent: an argument (a dimension, a cursor, an identifier, a limit) is wrong. The message names it and the remedy."""


class StoreSchemaError(StoreError):
    """Permanent: the schema files of this installation contradict each other. The message names them."""


LIMIT_CODES = frozenset({159, 241})
"""ClickHouse error codes of a query that exceeded its limits: TIMEOUT_EXCEEDED, MEMORY_LIMIT_EXCEEDED."""
RETRYABLE_CODES = LIMIT_CODES | frozenset(
    {
        60,  # UNKNOWN_TABLE: our own tables are not made yet
        81,  # UNKNOWN_DATABASE
        202,  # TOO_MANY_SIMULTANEOUS_QUERIES
        203,  # NO_FREE_CONNECTION
        209,  # SOCKET_TIMEOUT
        210,  # NETWORK_ERROR
        225,  # NO_ZOOKEEPER
        236,  # ABORTED: shutting down
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
"""ClickHouse error codes after which the same call may succeed later."""
