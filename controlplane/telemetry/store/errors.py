"""The errors of the store, in two families. No exception of a client library leaves this package.

StoreUnavailableError      retryable: the same call may succeed after `retry_after_s`
└── StoreLimitError        a query exceeded the store's memory or time; a smaller one may succeed now
StoreError                 permanent: the same call will fail again
├── StoreInputError        an argument that no query can be made of
├── StoreSchemaError       schema files that contradict each other
└── EngineError            a statement that the embedded engine refused
"""


class StoreUnavailableError(Exception):
    """Retryable: the store is away, busy or full. The same call may succeed after `retry_after_s` seconds. `remedy` is what its owner
    can do, as a sentence, where its answer tells.
    """

    def __init__(self, message: str, retry_after_s: float = 1.0, remedy: str = "") -> None:
        super().__init__(message)
        self.retry_after_s, self.remedy = retry_after_s, remedy


class StoreLimitError(StoreUnavailableError):
    """Retryable: the query exceeded the memory or time that the store allows. A smaller query may succeed at once."""


class StoreError(Exception):
    """Permanent: the store refused this call and will refuse it again. `code` is ClickHouse's error code, if it sent one."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code

    @property
    def remedy(self) -> str:
        """What its owner can do, as sentences."""
        return REMEDIES.get(self.code or 0, "Weir's log has what it says (store.refused).")


_OTHER_TABLES = "Its tables are not those of this version: start telemetry of the same version, which migrates them."
_SET_ASIDE = "Some of its data on disk is damaged: restart it (the embedded one with telemetry), which sets that aside."
_NO_TABLES = "It has no tables of Weir: start telemetry, which makes them, or correct the database in WEIR_STORE_DSN."
DAMAGED = frozenset({33, 40, 246})
"""ClickHouse's codes of data on disk that cannot be read: CANNOT_READ_ALL_DATA, CHECKSUM_DOESNT_MATCH, CORRUPTED_DATA."""
REMEDIES = {
    **dict.fromkeys(DAMAGED, _SET_ASIDE),
    16: _OTHER_TABLES,  # NO_SUCH_COLUMN_IN_TABLE
    46: "It lacks a function: run a newer ClickHouse.",  # UNKNOWN_FUNCTION
    47: _OTHER_TABLES,  # UNKNOWN_IDENTIFIER
    60: _NO_TABLES,  # UNKNOWN_TABLE
    81: _NO_TABLES,  # UNKNOWN_DATABASE
    192: "Its user is not known: correct WEIR_STORE_DSN.",  # UNKNOWN_USER
    193: "Its password is wrong: correct WEIR_STORE_DSN.",  # WRONG_PASSWORD
    497: "Its user lacks a right: grant it to the user of WEIR_STORE_DSN.",  # ACCESS_DENIED
    516: "Its user or password is wrong: correct WEIR_STORE_DSN.",  # AUTHENTICATION_FAILED
}
"""By ClickHouse's error codes."""


class StoreInputError(StoreError, ValueError):
    """Permanent: an argument (a dimension, a cursor, an identifier, a limit) is wrong. The message names it and the remedy."""


class StoreSchemaError(StoreError):
    """Permanent: the schema files of this installation contradict each other. The message names them."""


LIMIT_CODES = frozenset({159, 241})
"""ClickHouse error codes of a query that exceeded its limits: TIMEOUT_EXCEEDED, MEMORY_LIMIT_EXCEEDED."""
RETRYABLE_CODES = LIMIT_CODES | frozenset(
    {
        60,  # UNKNOWN_TABLE: our own tables are not made yet
        74,  # CANNOT_READ_FROM_FILE_DESCRIPTOR: its disk fails, or is read-only, and so on
        75,  # CANNOT_WRITE_TO_FILE_DESCRIPTOR
        76,  # CANNOT_OPEN_FILE
        77,  # CANNOT_CLOSE_FILE
        81,  # UNKNOWN_DATABASE
        87,  # CANNOT_SEEK_THROUGH_FILE
        88,  # CANNOT_TRUNCATE_FILE
        172,  # CANNOT_CREATE_DIRECTORY
        202,  # TOO_MANY_SIMULTANEOUS_QUERIES
        203,  # NO_FREE_CONNECTION
        204,  # CANNOT_FSYNC
        209,  # SOCKET_TIMEOUT
        210,  # NETWORK_ERROR
        214,  # CANNOT_STATVFS
        225,  # NO_ZOOKEEPER
        236,  # ABORTED: shutting down
        242,  # TABLE_IS_READ_ONLY
        243,  # NOT_ENOUGH_SPACE
        252,  # TOO_MANY_PARTS
        279,  # ALL_CONNECTION_TRIES_FAILED
        285,  # TOO_FEW_LIVE_REPLICAS
        286,  # UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE
        294,  # CANNOT_WRITE_TO_FILE
        319,  # UNKNOWN_STATUS_OF_INSERT
        400,  # CANNOT_STAT
        424,  # CANNOT_LINK
        439,  # CANNOT_SCHEDULE_TASK
        458,  # CANNOT_UNLINK
        499,  # S3_ERROR
        531,  # CANNOT_FSTAT
        586,  # CANNOT_CREATE_FILE
        999,  # KEEPER_EXCEPTION
    }
)
"""ClickHouse error codes after which the same call may succeed later."""
FILE_SYSTEM = "filesystem_error"
"""What its disk refuses has no code of its own, but this in its text (STD_EXCEPTION)."""
