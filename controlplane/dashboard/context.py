"""What every page's frame shows."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest

from controlplane.incidents.models import Incident


def open_incidents(request: HttpRequest) -> dict[str, Any]:
    """How many pages nobody has acknowledged or resolved; asked only by templates that show it."""

    def open_pages() -> int:
        shown = request.user.is_authenticated
        return (
            Incident.objects.filter(status=Incident.Status.OPEN, severity="page", withheld="").count() if shown else 0
        )

    found: dict[str, Callable[[], int]] = {"open_pages": open_pages}
    return found
