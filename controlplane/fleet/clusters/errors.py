"""What may go wrong with a cluster. Each class belongs to one of two families.

ClusterError
 ├── RetryableClusterError      the same may succeed `retry_after_s` later
 │    ├── ConflictError         what the caller saw has changed since: look again, and decide again
 │    ├── ThrottledError        the cluster has too much to do, and says when to come back
 │    └── UnreachableError      no answer, or a failure of the cluster's own: whether a write counted is not known
 └── PermanentClusterError      it will not succeed again, and the message has the remedy
      ├── ForbiddenError        the credentials do not allow it
      ├── InvalidError          the cluster refuses the value, or what is named is not there
      ├── SecondOwnerError      applying would take fields that somebody else manages
      └── StaleLeaderError      another process leads by now
"""


class ClusterError(Exception):
    """Above all errors of clusters. Never raised itself."""


class RetryableClusterError(ClusterError):
    """Retryable, after `retry_after_s` seconds."""

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ConflictError(RetryableClusterError):
    """What the caller saw has changed since. Nothing was written."""


class ThrottledError(RetryableClusterError):
    """The cluster has too much to do. Nothing was written."""


class UnreachableError(RetryableClusterError):
    """No answer, or a failure of the cluster's own. A write may have counted: look before the next one."""


class PermanentClusterError(ClusterError):
    """The same call will not succeed. The message has the remedy."""


class ForbiddenError(PermanentClusterError):
    """The credentials do not allow it."""


class InvalidError(PermanentClusterError):
    """The cluster refuses the value, or what is named is not there."""


class SecondOwnerError(PermanentClusterError):
    """Applying would take fields that somebody else manages. The message names fields and managers."""


class StaleLeaderError(PermanentClusterError):
    """Another process leads by now. Nothing was written."""
