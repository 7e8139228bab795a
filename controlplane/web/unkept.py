"""What to answer to a request with a text or number that the database cannot keep: PostgreSQL knows no U+0000."""

import structlog
from django.db import DataError
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.utils.deprecation import MiddlewareMixin

from controlplane.accounts.middleware import MACHINE_PATHS
from controlplane.core.problems import problem

log = structlog.get_logger(__name__)
DETAIL = "The database cannot keep a value of this request: a text with U+0000 or too long, or a number or time beyond its range"
OF_VALUES = frozenset({None, "22001", "22003", "22007", "22008", "22021", "22P05"})
"""By SQLSTATE, what a value is refused for. Psycopg itself refuses U+0000, without one.

https://www.postgresql.org/docs/current/errcodes-appendix.html
"""


class Unkept(MiddlewareMixin):
    """Such a request is wrong (400). Whatever else the database refuses, such as a division by zero, is a defect of Weir (500)."""

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if not isinstance(exception, DataError) or getattr(exception.__cause__, "sqlstate", None) not in OF_VALUES:
            return None
        log.warning("request.not_kept", path=request.path_info[:200], reason=str(exception))
        if request.path_info.startswith(MACHINE_PATHS):
            return problem(400, "Bad request", DETAIL)
        return HttpResponseBadRequest(f"{DETAIL}.\n", content_type="text/plain")
