"""The gateway's errors. Each class belongs to one of two families.

GatewayError
 ├── PermanentError                 doing the same again does not help
 │    ├── ConfigError               the environment cannot be understood
 │    ├── SnapshotError             the policy snapshot cannot be obeyed
 │    ├── PermanentApiError         a client hears that its request is wrong, or has failed for good
 │    ├── ProtocolError             a server does not speak HTTP/2 as the gateway understands it
 │    └── CallFailedError           a gRPC call ended with a status that is neither OK nor UNAVAILABLE
 └── RetryableError                 it may help, `retry_after_s` later
      ├── RetryableApiError         a client hears when to send its request again
      ├── QueueFullError            a pool has no place, and no place to wait for one
      ├── RedisLostError            Redis is not connected
      └── UnavailableError          a gRPC call ended with UNAVAILABLE; another replica may be called at once
           └── UnreachableError     the server never answered the call
                └── RefusedError    the server lives and did not begin the call

`ApiError` stands above both errors for clients, and `GrpcError` above all errors of gRPC calls.
"""


class GatewayError(Exception):
    """Above all errors of the gateway. Never raised itself."""


class PermanentError(GatewayError):
    """Doing the same again does not help."""


class RetryableError(GatewayError):
    """Doing the same again may help, after `retry_after_s` seconds."""

    # A replica is probed again within two seconds at most, and Redis is connected to again within one.
    retry_after_s: float = 1.0
