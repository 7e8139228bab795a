"""What all routes of the lane share: who calls, errors in OpenAI's shape, and work that waits for the database."""

import errno
import hmac
import secrets
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import unquote

import msgspec
import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from django.db import DatabaseError, DataError

from controlplane.core.encryption import SealError
from controlplane.lane.backlog import TooLateError
from controlplane.lane.core import states
from controlplane.lane.core.lines import RefusedError
from controlplane.lane.create_job import Caller
from controlplane.lane.http import forms
from controlplane.lane.models import Batch
from controlplane.lane.store.batches import ConflictError
from controlplane.lane.store.files import NotThereError
from controlplane.lane.store.idempotency import OtherBodyError
from controlplane.lane.store.limits import FullError
from controlplane.lane.threads import in_thread
from inference.contract.lane import END_HEADER, KEY_HEADER, TENANT_HEADER, UNKNOWN_END

log = structlog.get_logger(__name__)
T = TypeVar("T")


def caller(request: web.Request) -> Caller:
    """Whom the gateway has authenticated, and the Idempotency-Key."""
    headers = request.headers
    return Caller(unquote(headers[TENANT_HEADER]), headers.get(KEY_HEADER, ""), headers.get("idempotency-key", ""))


def json(body: object, status: int = 200, **headers: str) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), status=status, content_type="application/json", headers=headers)


def expected_end(row: Batch, end_s: float | None) -> dict[str, str]:
    """The header of a batch or job that is open."""
    if row.status not in states.OPEN:
        return {}
    return {END_HEADER: UNKNOWN_END if end_s is None else str(round(end_s))}


def refusal(status: int, message: str, param: str | None, code: str, **headers: str) -> web.Response:
    kind = "invalid_request_error" if status < 500 else "server_error"
    return json({"error": {"message": message, "type": kind, "param": param, "code": code}}, status, **headers)


def edge(token: str) -> Middleware:
    """Lets the gateway in alone, and makes answers of errors."""
    wanted = f"Bearer {token}".encode()

    @web.middleware
    async def handle(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not request.path.startswith("/v1/"):
            return await handler(request)
        given = request.headers.get("authorization", "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(given, wanted) or not request.headers.get(TENANT_HEADER):
            return refusal(401, "The lane answers the gateway alone: send the request there.", None, "invalid_api_key")
        answer = await _answer(request, handler)
        if not answer.prepared:
            answer.headers["x-request-id"] = f"lane-{secrets.token_hex(16)}"
        return answer

    return handle


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except NotThereError as error:
        return refusal(404, str(error), error.param, "not_found")
    except RefusedError as error:
        return refusal(400, str(error), error.param, error.code)
    except FullError as error:
        return refusal(429, str(error), None, error.code, **{"retry-after": "5"})
    except TooLateError as error:
        headers = {"retry-after": str(error.retry_after_s), "x-should-retry": "false"}
        headers |= {} if error.end_s is None else {END_HEADER: str(round(error.end_s))}
        return refusal(429, str(error), None, error.code, **headers)
    except OtherBodyError as error:
        return refusal(409, str(error), None, error.code, **{"x-should-retry": "false"})
    except ConflictError as error:
        return refusal(409, str(error), None, "conflict", **{"x-should-retry": "false"})
    except web.HTTPRequestEntityTooLarge:
        return refusal(413, "The body is too large for this URL.", None, "request_too_large")
    except SealError as error:
        log.warning("lane.secret_not_sealed", reason=str(error))
        return refusal(500, "Callbacks cannot be signed: ask the operators of this gateway.", "callback", "no_secret")
    except (web.HTTPNotFound, web.HTTPMethodNotAllowed):
        return refusal(404, f"Unknown request URL: {request.method} {request.path}.", None, "unknown_url")
    except DataError:
        return refusal(400, "The database cannot keep a text of this request: leave out U+0000.", None, "invalid_value")
    except DatabaseError as error:
        log.warning("lane.database_failed", reason=str(error))
        return _later("The database does not answer: try again shortly.")
    except OSError as error:
        if isinstance(error, ConnectionError):
            raise  # of the client's
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            log.warning("lane.disk_full")
            return _later("There is no room for files just now: try again later.")
        log.warning("lane.objects_away", reason=str(error))
        return _later("The files do not answer: try again shortly.")


def _later(message: str) -> web.Response:
    return refusal(503, message, None, "service_unavailable", **{"retry-after": "2"})


def number(request: web.Request, name: str, default: int, most: int, least: int = 1) -> int:
    """Of the query. Raises RefusedError."""
    text = request.query.get(name, str(default))
    if not (text.isascii() and text.isdigit() and least <= int(text[:9]) <= most):
        raise RefusedError(f"`{name}` must be from {least} to {most}.", name)
    return int(text)


async def listing(
    request: web.Request,
    default: int,
    most: int,
    find: Callable[[str, str, int], tuple[Sequence[T], bool]],
    show: Callable[[T], dict[str, Any]],
) -> web.Response:
    """A page of the tenant's rows. `find` gets the tenant, the id after which it begins, and how many rows at most. Raises RefusedError."""
    tenant, after = caller(request).tenant, request.query.get("after", "")
    limit = number(request, "limit", default, most)
    rows, has_more = await in_thread(lambda: find(tenant, after, limit))
    return json(forms.listing([show(row) for row in rows], has_more))


def choice(request: web.Request, name: str, allowed: tuple[str, ...]) -> str:
    """Of the query; the first where it is missing. Raises RefusedError."""
    text: str = request.query.get(name, allowed[0])
    if text not in allowed:
        raise RefusedError(f"`{name}` must be one of {', '.join(it for it in allowed if it)}.", name)
    return text
