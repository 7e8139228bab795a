"""`GET audit`: who changed what, or was refused."""

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router

from controlplane.api.schemas.audit import AuditOut, AuditParameters
from controlplane.audit.listing import listed, require

router = Router(tags=["people"])


@router.get("", response=AuditOut, summary="Who changed what, and what was refused, the newest first")
def audit(request: HttpRequest, parameters: Query[AuditParameters]) -> dict[str, Any]:
    require(request.user)
    return listed(parameters.dict(), parameters.before, parameters.limit)._asdict()
