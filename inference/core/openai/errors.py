"""Errors that clients get, in OpenAI's shape. Their families are those of `inference.core.errors`."""

from dataclasses import dataclass, field

import msgspec

from inference.core.errors import GatewayError, PermanentError, RetryableError

_LONGEST_TEXT = 500  # characters


@dataclass(slots=True)
class ApiError(GatewayError):
    """What a client hears. `stage` is the ledger's stage that failed, and `detail` is what a backend said: both are for
    the gateway's own spans.
    """

    status: int
    type: str
    code: str
    message: str
    param: str | None = None
    stage: str = "gateway"
    detail: str = field(default="", kw_only=True)

    def headers(self) -> list[tuple[bytes, bytes]]:
        return []

    def body(self) -> bytes:
        error = {
            "message": self.message[:_LONGEST_TEXT],  # it may repeat what the client sent, which may be megabytes
            "type": self.type,
            "param": self.param[:_LONGEST_TEXT] if self.param else self.param,
            "code": self.code,
        }
        return msgspec.json.encode({"error": error})


class PermanentApiError(ApiError, PermanentError):
    def headers(self) -> list[tuple[bytes, bytes]]:
        """The official client sends again what was answered with a 5xx, unless a header says otherwise."""
        return [(b"x-should-retry", b"false")] if self.status >= 500 else []


@dataclass(slots=True)
class RetryableApiError(ApiError, RetryableError):
    retry_after_s: float = field(kw_only=True)

    def headers(self) -> list[tuple[bytes, bytes]]:
        return [
            (b"retry-after", b"%d" % max(1, round(self.retry_after_s + 0.499))),
            (b"retry-after-ms", b"%d" % max(1, round(self.retry_after_s * 1000))),
            (b"x-should-retry", b"true"),
        ]


_INVALID = "invalid_request_error"


def invalid(message: str, param: str | None = None, code: str = "invalid_value") -> ApiError:
    return PermanentApiError(400, _INVALID, code, message, param)


def unsupported(param: str, remedy: str) -> ApiError:
    return PermanentApiError(
        400, _INVALID, "unsupported_parameter", f"`{param}` is not supported with this value: {remedy}", param
    )


def context_length(tokens: int, limit: int, param: str) -> ApiError:
    message = f"The prompt has {tokens} tokens or more; this model takes at most {limit}. Shorten it."
    return PermanentApiError(400, _INVALID, "context_length_exceeded", message, param, "tokenizer")


def missing_key() -> ApiError:
    return PermanentApiError(401, _INVALID, "invalid_api_key", "No API key. Send it as `Authorization: Bearer KEY`.")


def wrong_key() -> ApiError:
    return PermanentApiError(401, _INVALID, "invalid_api_key", "The API key is not known here.")


def no_metrics() -> ApiError:
    message = "/metrics is for `Authorization: Bearer` with WEIR_METRICS_TOKEN; without such a token, for this machine."
    return PermanentApiError(401, _INVALID, "invalid_api_key", message)


def no_such_model(name: str) -> ApiError:
    message = f"The model {name!r} does not exist. `GET /v1/models` lists those that do."
    return PermanentApiError(404, _INVALID, "model_not_found", message, "model")


def refused_model(name: str) -> ApiError:
    message = f"The model {name!r} is set up in a way that this gateway cannot serve. Its owner finds why in the log."
    return PermanentApiError(503, "server_error", "model_misconfigured", message, "model")


def no_such_url(method: str, path: str) -> ApiError:
    return PermanentApiError(404, _INVALID, "unknown_url", f"Unknown request URL: {method} {path}.")


def headers_too_large(limit: int, fields: int) -> ApiError:
    return PermanentApiError(
        431, _INVALID, "headers_too_large", f"Headers over {limit} bytes or {fields} fields. Send less."
    )


def wrong_version(version: str) -> ApiError:
    message = f"HTTP/{version} is not spoken here: use HTTP/1.1."
    return PermanentApiError(505, _INVALID, "http_version_not_supported", message)


def unknown_coding() -> ApiError:
    message = "Of transfer codings only `chunked` is understood: send the body as it is."
    return PermanentApiError(501, _INVALID, "transfer_coding_not_supported", message)


def method_not_allowed(method: str, path: str) -> ApiError:
    return PermanentApiError(405, _INVALID, "method_not_allowed", f"{path} does not answer to {method}.")


def body_too_large(limit: int) -> ApiError:
    return PermanentApiError(413, _INVALID, "request_too_large", f"The body is over {limit} bytes. Send less.")


def rate_limited(tier: str, what: str, limit: int, retry_after_s: float) -> ApiError:
    message = f"Rate limit of tier {tier!r} reached: {limit} {what} a minute. Slow down or ask for another tier."
    return RetryableApiError(429, what, "rate_limit_exceeded", message, stage="gateway", retry_after_s=retry_after_s)


def overloaded(model: str, retry_after_s: float) -> ApiError:
    message = f"Too many requests are waiting for {model!r}. Try again in a moment."
    return RetryableApiError(429, "server_error", "queue_full", message, stage="queue", retry_after_s=retry_after_s)


def unavailable(message: str, retry_after_s: float, stage: str = "model", detail: str = "") -> ApiError:
    return RetryableApiError(
        503, "server_error", "service_unavailable", message, stage=stage, retry_after_s=retry_after_s, detail=detail
    )


def stage_timeout(stage: str, timeout_ms: int) -> ApiError:
    message = f"The {stage} stage took longer than its timeout of {timeout_ms} ms."
    return PermanentApiError(504, "server_error", "stage_timeout", message, stage, stage)


def deadline_missed(stage: str, deadline_s: float) -> ApiError:
    message = f"No answer within the client's own deadline of {deadline_s:g} s; the time went in the {stage} stage."
    return PermanentApiError(504, "server_error", "deadline_exceeded", message, stage, stage)


def model_failed(detail: str) -> ApiError:
    """`detail` goes into the span alone: a backend's own words may name its machine, its files or others' requests."""
    message = "The model failed to answer this request. The operator of the gateway finds the reason in its trace."
    return PermanentApiError(502, "server_error", "model_error", message, stage="model", detail=detail)


def internal(request_id: str) -> ApiError:
    message = f"The gateway failed. Its log has the reason under request {request_id}."
    return PermanentApiError(500, "server_error", "internal_error", message)
