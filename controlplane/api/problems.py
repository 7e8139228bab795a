"""Answers errors with RFC 9457 problem documents that name the field, its value and the remedy."""

import re
from http import HTTPStatus
from typing import Any

import structlog
from django.conf import settings
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.core.exceptions import ValidationError as Refused
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError

from controlplane.api.document import InvalidInputError
from controlplane.api.formats import REMEDIES
from controlplane.core.documents.report import problem_json
from controlplane.core.problems import problem, unauthorized
from controlplane.lane.store.batches import ConflictError
from controlplane.planning.jobs import JobRefusedError
from controlplane.policy.revisions.read import PolicyTextError
from controlplane.telemetry.query.core.errors import BadParameterError, BadQuestionError
from controlplane.telemetry.store import StoreError, StoreInputError, StoreUnavailableError

log = structlog.get_logger(__name__)
MAX_VALUE_CHARS = 80
_NO_ROW = re.compile(r"No (\w+) matches the given query\.")
"""What Django says."""


@csrf_exempt
def no_endpoint(request: HttpRequest, rest: str) -> HttpResponse:
    return problem(404, "No such endpoint", f"/api/v1/{rest[:80]} is not an endpoint; /api/v1/openapi.json lists them")


def register(api: NinjaAPI) -> None:
    """Registers an answer for every error that an endpoint may raise."""

    @api.exception_handler(BadParameterError)
    def bad_parameter(request: HttpRequest, error: BadParameterError) -> HttpResponse:
        return problem(422, "Bad parameter", str(error), field=error.field, value=error.value, remedy=error.remedy)

    @api.exception_handler(InvalidInputError)
    def invalid(request: HttpRequest, error: InvalidInputError) -> HttpResponse:
        first = error.errors[0]
        field, value = _field(first), _value(first)
        reason, remedy = _reason(first)
        detail = f"{field}={value!r}: {reason}. {remedy}."
        return problem(422, "Bad parameter", detail, field=field, value=value, remedy=remedy)

    @api.exception_handler(BadQuestionError)
    def contradiction(request: HttpRequest, error: BadQuestionError) -> HttpResponse:
        return problem(409, "Contradiction", str(error), field=error.field, value=error.value, remedy=error.remedy)

    @api.exception_handler(Refused)
    def refused(request: HttpRequest, error: Refused) -> HttpResponse:
        """The errors of a model's validation."""
        said = error.message_dict if hasattr(error, "error_dict") else {"": error.messages}
        field, messages = next(iter(said.items()))
        detail = messages[0] if field in ("", "__all__") or messages[0].startswith(field) else f"{field}: {messages[0]}"
        return problem(409, "Refused", detail, field=field.removeprefix("__all__"), errors=said)

    @api.exception_handler(PolicyTextError)
    def no_policy(request: HttpRequest, error: PolicyTextError) -> HttpResponse:
        """A text that is no policy: `problems` has the line of each reason."""
        first = error.problems[0]
        detail = f"line {first.mark.line}, column {first.mark.column}: {first.message}"
        return problem(
            409, "Refused", detail, field=first.path or "text", problems=[problem_json(each) for each in error.problems]
        )

    @api.exception_handler(JobRefusedError)
    @api.exception_handler(ConflictError)
    def not_now(request: HttpRequest, error: JobRefusedError | ConflictError) -> HttpResponse:
        return problem(409, "Refused", str(error))

    @api.exception_handler(PermissionDenied)
    def forbidden(request: HttpRequest, error: PermissionDenied) -> HttpResponse:
        return problem(403, "Not allowed", str(error))

    @api.exception_handler(StoreInputError)
    def bad_input(request: HttpRequest, error: StoreInputError) -> HttpResponse:
        return problem(409, "Contradiction", str(error))

    @api.exception_handler(StoreUnavailableError)
    def away(request: HttpRequest, error: StoreUnavailableError) -> HttpResponse:
        log.warning("store.unavailable", path=request.path, error=str(error))
        retry_s = max(1, round(error.retry_after_s))
        return problem(
            503,
            "The store does not answer",
            f"{error.remedy} Try again in {retry_s} s".lstrip(),
            {"Retry-After": str(retry_s)},
            retry_after_s=retry_s,
        )

    @api.exception_handler(StoreError)
    def refused_by_store(request: HttpRequest, error: StoreError) -> HttpResponse:
        log.error("store.refused", path=request.path, code=error.code, error=str(error))
        code = f" with ClickHouse's error {error.code}" if error.code else ""
        detail = f"It refused the query{code}, and will again. {error.remedy}"
        return problem(500, "The store refused", detail, remedy=error.remedy)

    @api.exception_handler(AuthenticationError)
    def unknown_caller(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
        return unauthorized()

    @api.exception_handler(Http404)
    def not_found(request: HttpRequest, error: Http404) -> HttpResponse:
        return problem(404, "Not found", _NO_ROW.sub(_no_row, str(error)))

    @api.exception_handler(HttpError)
    def refused_by_framework(request: HttpRequest, error: HttpError) -> HttpResponse:
        """Such as a body that is not JSON, or a login without its CSRF token."""
        detail = f"The body is no JSON: {error.__cause__}" if error.__cause__ else str(error)
        return problem(error.status_code, HTTPStatus(error.status_code).phrase, detail)

    @api.exception_handler(RequestDataTooBig)
    def too_large(request: HttpRequest, error: RequestDataTooBig) -> HttpResponse:
        most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        return problem(413, "Body too large", f"The body is larger than {most} bytes: send less at once")


def _no_row(said: re.Match[str]) -> str:
    words = re.sub("([A-Z])", r" \1", said[1]).lower()
    return f"there is no{words} of this name or number"


def _field(error: dict[str, Any]) -> str:
    """Such as `from`, or `indicator.kind` of a body."""
    location = [str(part) for part in error["loc"] if part != "[key]"]
    return ".".join(location[1:]) or "body" if error["source"] == "body" else location[0]


def _reason(error: dict[str, Any]) -> tuple[str, str]:
    """What is wrong, and what to do."""
    match error["type"]:
        case "missing":
            return "is missing", "Give it"
        case "extra_forbidden":
            return "is not a field", "Leave it out; /api/v1/docs lists the fields"
        case "string_pattern_mismatch":
            return "is malformed", REMEDIES[error["ctx"]["pattern"]]
    return str(error["msg"]), "See /api/v1/docs for accepted values"


def _value(error: dict[str, Any]) -> str:
    given = error.get("input", "")
    return "" if error["type"] == "missing" else str(given)[:MAX_VALUE_CHARS]
