"""The errors of all model servers, whatever they speak. `inference.contract.errors` shows them among the others."""

from typing import NamedTuple

from inference.contract.errors import GatewayError, PermanentError, RetryableError

MAX_MESSAGE_CHARS = 500
"""Characters of one message in logs and spans."""


class ServerAnswer(NamedTuple):
    """An error as the server gave it, for the client: with `headers` of which `content-type` is one. In the middle of a stream
    the client has it already, and `status` is 0.
    """

    status: int
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""


class BackendError(GatewayError):
    """A call failed. `error_type` is the attempt's `error.type`: a word of ours, a gRPC status in lower case, or an HTTP status.

    `message` goes into logs and spans. It is in our words, and says of the server's, `said`, how long they are: a server may
    repeat the prompt in them. `answer` is the server's own, for the client.
    """

    answer: ServerAnswer | None = None

    def __init__(self, message: str, error_type: str, said: str = "") -> None:
        self.error_type = error_type
        self._words, self._said = message, said
        self.message = f"{message} (it said {len(said)} characters)" if said else message[:MAX_MESSAGE_CHARS]

    def quote(self) -> None:
        """Have the server's words in `message`, as an owner allows it for a pool."""
        if self._said:
            self.message = f"{self._words}: {self._said}"[:MAX_MESSAGE_CHARS]

    def __str__(self) -> str:
        return f"{self.error_type}: {self.message}"


class UnreachableError(BackendError, RetryableError):
    """There is no connection, so that the server has not had the call. Its health is unknown."""

    def __init__(self, message: str, error_type: str = "unreachable") -> None:
        super().__init__(message, error_type)


class LostCallError(UnreachableError):
    """The connection was lost while the server had the call: it may have died of it."""


class RefusedError(UnreachableError):
    """The server did not begin this call, and lives: it takes no more calls at once, or closes this connection."""

    def __init__(self, message: str, error_type: str = "refused") -> None:
        super().__init__(message, error_type)


class BusyError(BackendError, RetryableError):
    """The server has no room: its queue is full, or its model is being loaded. This is load, and no failure. `pause_s` is how long
    it wants to be left alone; 0 where it does not say.
    """

    def __init__(self, message: str, error_type: str = "unavailable", pause_s: float = 0.0, said: str = "") -> None:
        super().__init__(message, error_type, said)
        self.pause_s = pause_s
        self.retry_after_s = pause_s or RetryableError.retry_after_s


class SlowError(BackendError, RetryableError):
    """The server has sent nothing for `timeout_ms`. It counts against its health."""

    def __init__(self, message: str, timeout_ms: int) -> None:
        super().__init__(message, "timeout")
        self.timeout_ms = timeout_ms


class FailedError(BackendError, PermanentError):
    """The server failed at this call. It counts against its health. `remedy` is what a client may hear of it."""

    remedy = ""


class InvalidError(BackendError, PermanentError):
    """The server says that the client's request is wrong. `message` goes to the client: the adapter has made sure that it
    holds no traceback, path or address. `param` and `code` are empty where the server names none.
    """

    def __init__(self, message: str, status: int = 400, param: str = "", code: str = "", said: str = "") -> None:
        super().__init__(message, str(status), said)
        self.status = status
        self.param = param
        self.code = code


class UnservedError(InvalidError):
    """The server does not do this with its model: it has no such route, or says that the model is not for it."""

    def __init__(self, message: str, error_type: str, said: str = "") -> None:
        super().__init__(message, param="model", said=said)
        self.error_type = error_type
