"""Problem documents (RFC 9457): what programs get in place of an answer."""

from typing import Any

from django.http import JsonResponse

PROBLEM = "application/problem+json"
LOG_IN = "Log in, or send `Authorization: Bearer TOKEN`"


def problem(
    status: int, title: str, detail: str, headers: dict[str, str] | None = None, **members: Any
) -> JsonResponse:
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, **members}
    return JsonResponse(body, status=status, headers=headers, content_type=PROBLEM)


def unauthorized(detail: str = LOG_IN) -> JsonResponse:
    return problem(401, "Not authenticated", detail, {"WWW-Authenticate": 'Bearer realm="weir"'})
