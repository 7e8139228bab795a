"""Health checks: the only pages, beside the login, that answer whoever asks."""

from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from controlplane.incidents.delivery.health import health


@login_not_required
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """The process runs."""
    return HttpResponse("ok\n", content_type="text/plain")


@login_not_required
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """The process can serve: 200, or 503 with what is missing. Says nothing that a stranger must not know."""
    try:
        executor = MigrationExecutor(connection)
        pending = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    except DatabaseError:
        return JsonResponse({"ready": False, "reason": "the database does not answer"}, status=503)
    if pending:
        return JsonResponse(
            {"ready": False, "reason": f"{pending} migrations are not applied: run manage.py migrate"}, status=503
        )
    return JsonResponse({"ready": True} | _paging())


def _paging() -> dict[str, str]:
    """Pages that nobody sends are no reason to take this process out of service, and every reason to be seen."""
    return {"paging": "down"} if health(timezone.now()).state == "down" else {}
