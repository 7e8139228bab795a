"""The gateway's errors. Each class belongs to one of two families.

GatewayError
 ├── PermanentError                 doing the same again does not help
 │    ├── ConfigError               the environment cannot be understood
 │    ├── CredentialError           a model server's secret is missing
 │    ├── TlsError                  a certificate of the gateway cannot be used
 │    ├── SnapshotError             the policy snapshot cannot be obeyed
 │    ├── CredentialError           there is no secret of this name for a model server
 │    ├── RedisUrlError             WEIR_REDIS_URL cannot be understood
 │    ├── PermanentApiError         a client hears that its request is wrong, or has failed for good
 │    │    └── MethodError          a client used a method that the URL does not answer to
 │    ├── BadTokenError             a token of an issuer does not hold
 │    ├── RefusedTextError          a rule of the tenant refuses a text
 │    ├── ProtocolError             a server does not speak HTTP/2 as the gateway understands it
 │    ├── CallFailedError           a gRPC call ended with a status that is neither OK nor UNAVAILABLE
 │    ├── NotHttpError              a model server does not speak HTTP/1.1
 │    ├── TooLongError              an answer over HTTP has more bytes than its caller wants
 │    ├── FailedError               a model server failed at a call
 │    ├── InvalidError              a model server says that the client's request is wrong
 │    │    └── UnservedError        its model is not for what the client wants of it
 │    ├── TargetError               a server cannot be measured by `weir bench`
 │    ├── EnteringError             what `weir bench` found could not be entered as what a replica carries
 │    ├── ChatTemplateError         a chat template is none, or cannot lay these messages out
 │    ├── ForgedTokenError          a client's text would be read as a control token
 │    ├── MessagesError             a client hears why its messages cannot be laid out
 │    ├── ModelFilesError           the files of a tokenizer cannot be used
 │    ├── TextMissingError          the model has no tokenizer that can be used
 │    └── TextFailedError           the model's tokenizer did not survive a request
 └── RetryableError                 it may help, `retry_after_s` later
      ├── RetryableApiError         a client hears when to send its request again
      ├── QueueFullError            a pool has no place, and no place to wait for one
      ├── RedisLostError            Redis is not connected
      ├── NotConnectedError         no HTTP connection could be made
      ├── LostError                 an HTTP connection ended before its answer did
      ├── UnavailableError          a gRPC call ended with UNAVAILABLE
      ├── TextUnavailableError      the model's tokenizer is being loaded
      ├── WorkerEndedError          the process of a tokenizer has ended
      ├── BusyError                 a model server has no room; another replica may be called at once
      ├── SlowError                 a model server has sent nothing in time; another replica may be called at once
      └── UnreachableError          a model server is not connected; another replica may be called at once
           ├── LostCallError        the connection was lost while it had the call
           └── RefusedError         it lives and did not begin the call

`ApiError` stands above both errors for clients, `GrpcError` above the statuses of gRPC calls, and `BackendError` above what
calls to model servers raise.
"""


class GatewayError(Exception):
    """Above all errors of the gateway. Never raised itself."""


class PermanentError(GatewayError):
    """Doing the same again does not help."""


class RetryableError(GatewayError):
    """Doing the same again may help, after `retry_after_s` seconds."""

    # A replica is probed again within two seconds at most, and Redis is connected to again within one.
    retry_after_s: float = 1.0
