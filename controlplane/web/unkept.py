"""What to answer to a request with a text or number that the database cannot keep: PostgreSQL knows no U+0000."""

import re
from urllib.parse import unquote_to_bytes

import structlog
from django.core.exceptions import RequestDataTooBig
from django.db import DataError
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.http.request import RawPostDataException, UnreadablePostError
from django.utils.deprecation import MiddlewareMixin

from controlplane.accounts.middleware import MACHINE_PATHS
from controlplane.core.problems import problem

log = structlog.get_logger(__name__)
DETAIL = "The database cannot keep a text or number of this request: it has U+0000, or a number that is too large"
NUL = re.compile(rb"\0|\\u0000|\\x00|\\0")
"""Also as JSON and YAML write it."""
LARGE = re.compile(rb"\d{5,}|\d[eE]\+?\d")
"""More than the smallest column of numbers takes, 32,767."""
SAYS = {"": NUL, "22021": NUL, "22P05": NUL, "22003": LARGE}
"""By SQLSTATE, what the request has where it is the reason. Psycopg itself refuses U+0000, without one.

https://www.postgresql.org/docs/current/errcodes-appendix.html
"""


class Unkept(MiddlewareMixin):
    """Such a request is wrong (400), and no defect of Weir (500). Any other value that the database refuses is one."""

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if not isinstance(exception, DataError) or not _is_of(request, exception):
            return None
        log.warning("request.not_kept", path=request.path_info[:200], reason=str(exception))
        if request.path_info.startswith(MACHINE_PATHS):
            return problem(400, "Bad request", DETAIL)
        return HttpResponseBadRequest(f"{DETAIL}.\n", content_type="text/plain")


def _is_of(request: HttpRequest, error: DataError) -> bool:
    """Whether the request has what the database refuses."""
    reason = SAYS.get(getattr(error.__cause__, "sqlstate", None) or "")
    return reason is not None and reason.search(_said(request)) is not None


def _said(request: HttpRequest) -> bytes:
    try:
        body = request.body
    except RawPostDataException:  # a form with files, which was read as it came
        body = "\n".join(value for values in request.POST.lists() for value in values[1]).encode(errors="replace")
    except (RequestDataTooBig, UnreadablePostError):  # nobody has read it: it is no reason
        body = b""
    query = unquote_to_bytes(request.META.get("QUERY_STRING", ""))
    return b"\n".join((request.path_info.encode(errors="replace"), query, unquote_to_bytes(body), body))
