"""What answers where a page or an answer failed. It asks the database nothing: that may be what failed."""

import sys

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

from controlplane.accounts.middleware import MACHINE_PATHS
from controlplane.core.problems import problem

RETRY_AFTER_S = 5


def failed(request: HttpRequest) -> HttpResponse:
    """503 where the database does not answer or takes nothing, else 500: a defect of Weir. Programs get a problem document (RFC 9457)."""
    away = isinstance(sys.exc_info()[1], InterfaceError | OperationalError)
    status, headers = (503, {"Retry-After": str(RETRY_AFTER_S)}) if away else (500, {})
    if request.path_info.startswith(MACHINE_PATHS):
        if away:
            return problem(status, "The database cannot be used", f"Try again in {RETRY_AFTER_S} s", headers)
        return problem(status, "Internal error", "This is a defect of Weir; the log of web has it")
    name = "_failed.html" if request.headers.get("HX-Request") == "true" else "500.html"
    return HttpResponse(render_to_string(name, {"away": away}), status=status, headers=headers)
