"""`GET stack`: every process, pool and replica as it is now."""

from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from ninja import Field, Router, Schema

from controlplane.incidents.notify.delivery.health.health import health
from controlplane.incidents.report.paging_row import paging_row
from controlplane.serving_stack import WINDOW_S, serving_stack

router = Router(tags=["stack"])


class ComponentOut(Schema):
    """Null is "not known", and never zero. `unknown`: never observed; `stale`: observed too long ago, without figures."""

    component: str
    name: str
    kind: str = Field(description="gateway, cache, telemetry, worker, pool or replica")
    state: str = Field(description="up, degraded, down, stale or unknown")
    rate_per_s: float | None
    errors_per_s: float | None
    p95_ms: float | None
    age_s: float | None = Field(description="Of the observation behind `state`")
    traffic_age_s: float | None = Field(description="Of the newest request that the ledger saw")
    detail: str
    figures: dict[str, float]
    pool: str = Field(description="Of a replica")


class StackOut(Schema):
    """Each pool is followed by its replicas."""

    window_s: int = Field(description="Rates and p95 of requests are of the last so many seconds")
    rows: list[ComponentOut]


@router.get("", response=StackOut, summary="The serving stack now")
def stack(request: HttpRequest) -> dict[str, Any]:
    return {"window_s": WINDOW_S, "rows": [*serving_stack(), paging_row(health(timezone.now()))]}
