"""What a Triton says of a failed call, as the errors of the port."""

import re

from inference.core.backend_errors import BackendError, BusyError, FailedError, InvalidError
from inference.wires.grpc import GrpcError, Status

_TRACEBACK = "Traceback (most recent call last)"
# A prompt that does not fit: vLLM's words, and TensorRT-LLM's.
_TOO_LONG = re.compile(
    r"longer than the maximum model length|maximum context length|exceeds? (?:the )?max(?:imum)?[ _](?:input|num|sequence|model)",
    re.IGNORECASE,
)
# A call that was not begun, where there is no status: words of Triton's scheduler, of its model repository, and of the vLLM
# backend's health check.
_BUSY = re.compile(
    r"maximum queue size|request timeout expired|has no available versions|is not (?:ready|available)|is unavailable|unloading",
    re.IGNORECASE,
)
_BUSY_NOW = "Triton did not begin the request"
# vLLM's backend does not say which sampling parameter it could not take (vllm_backend:src/utils/request.py).
_BAD_SAMPLING = "object has no attribute 'lora_name'"


def of_status(error: GrpcError) -> BackendError:
    """The error of a call that ended with a status."""
    if error.status is Status.UNAVAILABLE:
        return BusyError(_BUSY_NOW, said=one_line(error.message))
    return of_message(error.message, error.status.name.lower())


def of_message(message: str, error_type: str = Status.INTERNAL.name.lower()) -> BackendError:
    """The error of a response that carries one."""
    if _TOO_LONG.search(message):
        return InvalidError(
            "The prompt and the answer do not fit into the model's context: shorten the messages or lower max_tokens.",
            code="context_length_exceeded",
        )
    if _BAD_SAMPLING in message:
        return InvalidError(
            "The model's server does not take one of the sampling parameters of this request. Its own log says which."
        )
    if _BUSY.search(message) and _TRACEBACK not in message:
        return BusyError(_BUSY_NOW, said=one_line(message))
    return FailedError("Triton's model failed", error_type, one_line(message))


def one_line(message: str) -> str:
    """What a traceback ends with; other messages as they are."""
    if _TRACEBACK not in message:
        return message
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[-1] if lines else ""
