"""What answers where no page is."""

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render

from controlplane.accounts.middleware import MACHINE_PATHS
from controlplane.core.problems import problem


def not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """People get a page of the site, once they are logged in; programs a problem document (RFC 9457)."""
    why = next((argument for argument in exception.args if isinstance(argument, str)), "")
    if request.path_info.startswith(MACHINE_PATHS):
        detail = why or f"there is no {request.path_info[:200]}; /api/v1/docs lists what there is"
        return problem(404, "Not found", detail)
    if not request.user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    return render(request, "404.html", {"path": request.path_info[:200], "why": why}, status=404)
