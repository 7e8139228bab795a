"""Errors as programs read them: RFC 9457 problem documents that name the field, its value and the remedy."""

from typing import Any

import structlog
from django.core.exceptions import PermissionDenied
from django.core.exceptions import ValidationError as Refused
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, ValidationError

from controlplane.telemetry.ask.errors import BadQuestion
from controlplane.telemetry.store import StoreInputError, StoreUnavailable

log = structlog.get_logger(__name__)
CONTENT_TYPE = "application/problem+json"


def problem(
    status: int, title: str, detail: str, headers: dict[str, str] | None = None, **members: Any
) -> JsonResponse:
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, **members}
    return JsonResponse(body, status=status, headers=headers, content_type=CONTENT_TYPE)


def no_endpoint(request: HttpRequest, rest: str) -> HttpResponse:
    return problem(404, "No such endpoint", f"/api/v1/{rest[:80]} is not an endpoint; /api/v1/openapi.json lists them")


def register(api: NinjaAPI) -> None:
    """Answer every error that an endpoint may raise."""

    @api.exception_handler(BadQuestion)
    def bad_question(request: HttpRequest, error: BadQuestion) -> HttpResponse:
        return problem(422, "Bad parameter", str(error), field=error.field, value=error.value, remedy=error.remedy)

    @api.exception_handler(ValidationError)
    def invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
        first = error.errors[0] if error.errors else {}
        field = str(first.get("loc", ("",))[-1])
        value = request.GET.get(field, "")[:80]
        message = str(first.get("msg", "is not valid"))
        return problem(422, "Bad parameter", f"{field}={value!r}: {message}", field=field, value=value, remedy=message)

    @api.exception_handler(Refused)
    def refused(request: HttpRequest, error: Refused) -> HttpResponse:
        """What a model's validation said, the first field first."""
        said = error.message_dict if hasattr(error, "error_dict") else {"": error.messages}
        field, messages = next(iter(said.items()))
        detail = messages[0] if field in ("", "__all__") or messages[0].startswith(field) else f"{field}: {messages[0]}"
        return problem(422, "Refused", detail, field=field.removeprefix("__all__"), errors=said)

    @api.exception_handler(PermissionDenied)
    def forbidden(request: HttpRequest, error: PermissionDenied) -> HttpResponse:
        return problem(403, "Not allowed", str(error))

    @api.exception_handler(StoreInputError)
    def bad_input(request: HttpRequest, error: StoreInputError) -> HttpResponse:
        return problem(422, "Bad parameter", str(error))

    @api.exception_handler(StoreUnavailable)
    def away(request: HttpRequest, error: StoreUnavailable) -> HttpResponse:
        log.warning("store_unavailable", path=request.path, error=str(error))
        retry_s = max(1, round(error.retry_after_s))
        return problem(
            503,
            "The store does not answer",
            f"Try again in {retry_s} s",
            {"Retry-After": str(retry_s)},
            retry_after_s=retry_s,
        )

    @api.exception_handler(AuthenticationError)
    def unknown_caller(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
        detail = "Log in, or send `Authorization: Bearer TOKEN`"
        return problem(401, "Not authenticated", detail, {"WWW-Authenticate": 'Bearer realm="weir"'})

    @api.exception_handler(Http404)
    def not_found(request: HttpRequest, error: Http404) -> HttpResponse:
        return problem(404, "Not found", str(error))
