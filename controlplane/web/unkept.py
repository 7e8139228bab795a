"""What to answer to a request with a text or number that the database cannot keep: PostgreSQL knows no U+0000."""

import structlog
from django.db import DataError
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.utils.deprecation import MiddlewareMixin

from controlplane.accounts.middleware import MACHINE_PATHS
from controlplane.core.problems import problem

log = structlog.get_logger(__name__)
DETAIL = "The database cannot keep a text or number of this request: it has U+0000, or a number that is too large"


class Unkept(MiddlewareMixin):
    """Such a request is wrong (400), and no defect of Weir (500)."""

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if not isinstance(exception, DataError):
            return None
        log.warning("request.not_kept", path=request.path_info[:200], reason=str(exception))
        if request.path_info.startswith(MACHINE_PATHS):
            return problem(400, "Bad request", DETAIL)
        return HttpResponseBadRequest(f"{DETAIL}.\n", content_type="text/plain")
