"""Errors that clients get, in OpenAI's shape. Their families are those of `inference.contract.errors`."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from inference.contract.errors import GatewayError, PermanentError, RetryableError
from inference.contract.metering.rate_limit import SHED_REASONS, Limit
from inference.contract.metering.spending import MICRO
from inference.core.backend_errors import ServerAnswer

_MAX_TEXT_CHARS = 500  # characters


@dataclass(slots=True)
class ApiError(GatewayError):
    """What a client hears. `stage` is the ledger's stage that failed, and `detail` is what a backend said: both are for
    the gateway's own spans. `reason` says why a request was shed, in `weir_gateway_shed_total` and in the body, which has
    `more` too. Where there is an `answer` of a server, the client gets that.
    """

    status: int
    type: str
    code: str
    message: str
    param: str | None = None
    stage: str = "gateway"
    detail: str = field(default="", kw_only=True)
    reason: str = field(default="", kw_only=True)
    more: dict[str, str | int | float] = field(default_factory=dict, kw_only=True)
    timeout_ms: int = field(default=0, kw_only=True)  # of the stage, where that is why
    prompt_tokens: int = field(default=-1, kw_only=True)  # so many at least, where their number is why
    answer: ServerAnswer | None = field(default=None, kw_only=True)

    @property
    def is_clients(self) -> bool:
        """Whether it is the client's own doing, and not the gateway's or a model's."""
        return self.status < 500 or self.type == _INVALID

    def headers(self) -> list[tuple[bytes, bytes]]:
        return []

    def body(self) -> bytes:
        error: dict[str, object] = {
            "message": self.message[:_MAX_TEXT_CHARS],  # it may repeat what the client sent, which may be megabytes
            "type": self.type,
            "param": self.param[:_MAX_TEXT_CHARS] if self.param else self.param,
            "code": self.code,
        }
        if self.reason:
            error |= {"reason": self.reason, **self.more}
        return msgspec.json.encode({"error": error})


class PermanentApiError(ApiError, PermanentError):
    def headers(self) -> list[tuple[bytes, bytes]]:
        """The official client sends again what was answered with a 5xx, unless a header says otherwise."""
        return [(b"x-should-retry", b"false")] if self.status >= 500 else []


@dataclass(slots=True)
class RetryableApiError(ApiError, RetryableError):
    retry_after_s: float = field(kw_only=True)
    by_itself: bool = field(default=True, kw_only=True)
    """Whether the official client sends it again by itself. Not where it has waited long already."""

    def headers(self) -> list[tuple[bytes, bytes]]:
        return [
            (b"retry-after", b"%d" % max(1, round(self.retry_after_s + 0.499))),
            (b"retry-after-ms", b"%d" % max(1, round(self.retry_after_s * 1000))),
            (b"x-should-retry", b"true" if self.by_itself else b"false"),
        ]


@dataclass(slots=True)
class MethodError(PermanentApiError):
    """`allowed` lists the methods that the URL answers to."""

    allowed: str = field(kw_only=True)

    def headers(self) -> list[tuple[bytes, bytes]]:
        return [(b"allow", self.allowed.encode())]


_INVALID = "invalid_request_error"


def invalid(message: str, param: str | None = None, code: str = "invalid_value") -> ApiError:
    return PermanentApiError(400, _INVALID, code, message, param)


def encoded() -> ApiError:
    message = "The body is compressed, as its header content-encoding says: send it as it is."
    return PermanentApiError(415, _INVALID, "unsupported_encoding", message)


def unsupported(param: str, remedy: str) -> ApiError:
    return PermanentApiError(
        400, _INVALID, "unsupported_parameter", f"`{param}` is not supported with this value: {remedy}", param
    )


def not_offered(param: str, server: str, how: str = "", remedy: str = "leave it out") -> ApiError:
    """`how` says what of the parameter it is."""
    message = f"`{param}`{how} is not supported by the server of this model ({server}): {remedy}."
    return PermanentApiError(400, _INVALID, "unsupported_parameter", message, param)


def unknown_parameter(name: str, server: str = "") -> ApiError:
    name = name[:100].encode("utf-8", "replace").decode()  # half a surrogate pair cannot be written
    remedy = f" It is none that {server} is known to take here: correct it, or leave it out." if server else ""
    return PermanentApiError(400, _INVALID, "unknown_parameter", f"Unknown parameter: '{name}'.{remedy}", name)


_UNSERVED = {
    "chat": ("takes no chats", "Name a model that generates text"),
    "text_completion": ("completes no texts", "Name a model that generates text"),
    "embeddings": ("makes no embeddings", "Name a model that embeds"),
    "rerank": ("ranks no documents", "Name a model that does"),
    "score": ("gives no scores", "Name a model that does"),
    "classify": ("classifies no texts", "Name a model that does"),
    "tokenize": ("shows no tokens", "Name a model of a server that does"),
    "detokenize": ("shows no tokens", "Name a model of a server that does"),
    "transcription": ("hears no speech", "Name a model that does"),
}


def not_served(model: str, operation: str, server: str, *, stage: str = "gateway", detail: str = "") -> ApiError:
    """The model is not for this operation. `detail` is what its server said, if it was called."""
    lacks, remedy = _UNSERVED[operation]
    message = f"The model {model!r} {lacks}: its server ({server}) does not serve it for that. {remedy}; `GET /v1/models` lists the models."
    return PermanentApiError(400, _INVALID, "unsupported_operation", message, "model", stage, detail=detail)


def refused_by_server(message: str, status: int, param: str, code: str) -> ApiError:
    """`message` is the model server's: its adapter has made sure that it may be shown."""
    kind = "not_found_error" if status == 404 else _INVALID
    return PermanentApiError(status, kind, code or "invalid_value", message, param or None, stage="model")


def context_length(tokens: int, limit: int, param: str) -> ApiError:
    message = f"The prompt has {tokens} tokens or more; this model takes at most {limit}. Shorten it."
    return _too_long(message, param, tokens)


def context_exceeded(tokens: int, max_tokens: int, limit: int, param: str) -> ApiError:
    message = (
        f"The prompt has {tokens} tokens, and {max_tokens} are asked for; this model has room for {limit} together. "
        "Shorten the prompt or ask for less."
    )
    return _too_long(message, param, tokens)


def _too_long(message: str, param: str, tokens: int) -> ApiError:
    code = "context_length_exceeded"
    return PermanentApiError(400, _INVALID, code, message, param, "tokenizer", prompt_tokens=tokens)


def output_limit(param: str, tokens: int, limit: int) -> ApiError:
    message = f"`{param}` is {tokens}, and this model gives at most {limit} output tokens: ask for no more."
    return PermanentApiError(400, _INVALID, "invalid_value", message, param)


def missing_key() -> ApiError:
    message = "No API key. Send it as `Authorization: Bearer KEY` or `x-api-key: KEY`."
    return PermanentApiError(401, _INVALID, "invalid_api_key", message)


def wrong_key() -> ApiError:
    return PermanentApiError(401, _INVALID, "invalid_api_key", "The API key is not known here.")


def expired_key() -> ApiError:
    return PermanentApiError(401, _INVALID, "invalid_api_key", "The API key has expired: ask its owner for a new one.")


def wrong_token(why: str) -> ApiError:
    """`why` is a sentence without its point, and has nothing of the token."""
    return PermanentApiError(401, _INVALID, "invalid_api_key", f"The token is refused. {why}.")


def no_metrics() -> ApiError:
    message = "/metrics is for `Authorization: Bearer` with WEIR_METRICS_TOKEN; without such a token, for this machine."
    return PermanentApiError(401, _INVALID, "invalid_api_key", message)


def no_such_model(name: str) -> ApiError:
    message = f"The model {name!r} does not exist. `GET /v1/models` lists those that do."
    return PermanentApiError(404, _INVALID, "model_not_found", message, "model")


def refused_model(name: str) -> ApiError:
    message = f"The model {name!r} is set up in a way that this gateway cannot serve. Its owner finds why in the log."
    return PermanentApiError(503, "server_error", "model_misconfigured", message, "model")


def no_such_answer() -> ApiError:
    message = (
        "No answer of a similar request is known by this id: it was another's, it is too old, or it was marked before."
    )
    return PermanentApiError(404, _INVALID, "answer_not_known", message, "request_id")


def not_cached() -> ApiError:
    """RFC 9111, 5.2.1.7."""
    message = "No answer to this request is stored, and `Cache-Control: only-if-cached` wants no other."
    return PermanentApiError(504, _INVALID, "not_cached", message, stage="cache")


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


def method_not_allowed(method: str, path: str, allowed: str) -> ApiError:
    message = f"{path} does not answer to {method}. Use {allowed}."
    return MethodError(405, _INVALID, "method_not_allowed", message, allowed=allowed)


def body_too_large(limit: int) -> ApiError:
    return PermanentApiError(413, _INVALID, "request_too_large", f"The body is over {limit} bytes. Send less.")


def slow_body(waited_s: float) -> ApiError:
    message = f"Nothing of the body came for {waited_s:g} s. Send it again, without a pause."
    return PermanentApiError(408, _INVALID, "request_timeout", message)


def rate_limited(tier: str, limit: Limit, retry_after_s: float) -> ApiError:
    if limit.budget:
        return _over_budget(limit, retry_after_s)
    whose = f"tier {tier!r}" if limit.scope == "tenant" else "this API key"
    unit = "requests in flight at a time" if limit.kind == "in_flight" else f"{limit.kind} a minute"
    message = (
        f"The limit of {whose} is reached: {limit.most} {unit}. Send again in {retry_after_s:.3g} s, or more slowly."
    )
    return RetryableApiError(
        429,
        "requests" if limit.kind == "in_flight" else limit.kind,
        "rate_limit_exceeded",
        message,
        retry_after_s=retry_after_s,
        reason=SHED_REASONS[limit.kind],
        more={"scope": limit.scope, "limit": limit.most},
    )


def _over_budget(limit: Limit, retry_after_s: float) -> ApiError:
    period, usd = limit.kind.removeprefix("usd_"), limit.most / MICRO
    message = (
        f"The budget of this API key is used up: {usd:,.2f} USD a {period}. The next {period} begins in "
        f"{retry_after_s / 3600:.1f} h (UTC); the key's owner can raise it."
    )
    return RetryableApiError(
        429,
        "insufficient_quota",
        "insufficient_quota",
        message,
        retry_after_s=retry_after_s,
        by_itself=False,
        reason=SHED_REASONS[limit.kind],
        more={"scope": limit.scope, "limit_usd": usd},
    )


def not_priced(model: str) -> ApiError:
    message = (
        f"This API key has a budget, and what {model!r} costs is not known: its owner enters a price for each of its pools, or another key "
        "is used."
    )
    return PermanentApiError(403, _INVALID, "price_unknown", message, "model", reason="price_unknown")


def overloaded(model: str, retry_after_s: float) -> ApiError:
    message = f"Too many requests are waiting for {model!r}. Try again in a moment."
    return RetryableApiError(
        429, "server_error", "queue_full", message, stage="queue", retry_after_s=retry_after_s, reason="queue_full"
    )


def refused_by_policy(model: str, step: str, policy: str, cached_only: bool, retry_after_s: float) -> ApiError:
    """A step of `policy`, a ladder, refuses the request, so that others are served."""
    what = (
        f"Of this tier, {model!r} answers only what is in its cache at present, and this request is not"
        if cached_only
        else f"Of this tier, {model!r} takes no requests at present"
    )
    return RetryableApiError(
        503,
        "server_error",
        "degraded",
        f"{what}. Send it again in {retry_after_s:.3g} s.",
        stage="gateway",
        retry_after_s=retry_after_s,
        reason="policy",
        more={"degraded": step, "policy": policy, "retry_after_s": retry_after_s},
    )


def outside_regions(model: str, tenant: str, regions: Iterable[str]) -> ApiError:
    """None of the model's pools is where the tenant may be served."""
    where = ", ".join(sorted(regions)) or "no region that both allow"
    message = f"Tenant {tenant!r} may be served by {model!r} in {where} alone, and no pool of the model is there."
    return PermanentApiError(403, _INVALID, "region_not_allowed", message, "model", reason="region")


def none_in_regions(model: str, tenant: str, regions: Iterable[str], retry_after_s: float) -> ApiError:
    """Pools elsewhere could serve the request, and may not."""
    where = ", ".join(sorted(regions))
    message = (
        f"The model {model!r} has no replica that is ready in {where}, and tenant {tenant!r} may not be served "
        "elsewhere. Try again in a moment."
    )
    return unavailable(message, retry_after_s, reason="region")


def unavailable(
    message: str, retry_after_s: float, stage: str = "model", detail: str = "", reason: str = ""
) -> ApiError:
    return RetryableApiError(
        503,
        "server_error",
        "service_unavailable",
        message,
        stage=stage,
        retry_after_s=retry_after_s,
        detail=detail,
        reason=reason,
    )


def stage_timeout(stage: str, timeout_ms: int) -> ApiError:
    message = f"The {stage} stage took longer than its timeout of {timeout_ms} ms."
    if stage == "queue":
        return _shed_late("stage_timeout", message, stage, "queue_timeout", timeout_ms)
    return PermanentApiError(504, "server_error", "stage_timeout", message, stage, stage, timeout_ms=timeout_ms)


def deadline_missed(stage: str, deadline_s: float, rule: str = "") -> ApiError:
    """`rule` is the routing rule whose deadline it is; the client's own if it is empty."""
    whose = f"deadline of rule {rule!r}," if rule else "client's own deadline of"
    message = f"No answer within the {whose} {deadline_s:g} s; the time went in the {stage} stage."
    return _shed_late("deadline_exceeded", message, stage, "deadline")


def _shed_late(code: str, message: str, stage: str, reason: str, timeout_ms: int = 0) -> ApiError:
    return RetryableApiError(
        504,
        "server_error",
        code,
        message,
        stage,
        stage,
        retry_after_s=1.0,
        by_itself=False,
        reason=reason,
        timeout_ms=timeout_ms,
    )


def model_failed(detail: str, remedy: str = "") -> ApiError:
    """`detail` goes into the span alone: a backend's own words may name its machine, its files or others' requests."""
    message = "The model failed to answer this request. " + (
        remedy or "The operator of the gateway finds the reason in its trace."
    )
    return PermanentApiError(502, "server_error", "model_error", message, stage="model", detail=detail)


def lost_with_prompt(model: str, replicas: Iterable[str]) -> ApiError:
    """Servers died while they had this prompt, so that no further one gets it. `replicas` are those of this request."""
    message = (
        f"Servers of {model!r} ended their connections while they had this prompt, so no further one gets it for a minute. "
        "If it alone fails, change it; the operator of the gateway finds the servers in its trace."
    )
    detail = f"lost while they had this prompt: {', '.join(replicas) or 'those of requests before'}"
    return PermanentApiError(502, "server_error", "servers_lost", message, stage="model", detail=detail)


def internal(request_id: str) -> ApiError:
    message = f"The gateway failed. Its log has the reason under request {request_id}."
    return PermanentApiError(500, "server_error", "internal_error", message)
