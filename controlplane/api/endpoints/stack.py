"""`GET stack`: every process, pool and replica as it is now."""

from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router

from controlplane.api.schemas.stack import StackOut
from controlplane.incidents.notify.delivery.health.health import health
from controlplane.incidents.report.paging_row import paging_row
from controlplane.serving_stack import WINDOW_S, serving_stack

router = Router(tags=["stack"])


@router.get("", response=StackOut, summary="The serving stack now")
def stack(request: HttpRequest) -> dict[str, Any]:
    return {"window_s": WINDOW_S, "rows": [*serving_stack(), paging_row(health(timezone.now()))]}
