"""What owners allow tenants to leave with the lane."""

from django.db.models import F, Sum

from controlplane.lane.core import states
from controlplane.lane.core.lines import Problem, RefusedError
from controlplane.lane.models import Batch, StoredFile, TenantLimits


def of(tenant: str) -> TenantLimits:
    """Its own, or those of every tenant without any."""
    rows = {row.tenant: row for row in TenantLimits.objects.filter(tenant__in=(tenant, ""))}
    return rows.get(tenant) or rows.get("") or TenantLimits(tenant=tenant)


def problems(batch: Batch, lines: int) -> list[Problem]:
    """Why the batch may not run beside the tenant's others."""
    most = of(batch.tenant).max_lines
    others = Batch.objects.filter(tenant=batch.tenant, status__in=states.OPEN).exclude(pk=batch.pk)
    queued = others.aggregate(lines=Sum(F("total") - F("completed") - F("failed")))["lines"] or 0
    if not most or queued + lines <= most:
        return []
    message = f"{queued} lines of other batches wait and {lines} are here; {most} may wait at a time. Try again once others have ended."
    return [Problem("too_many_queued_requests", message)]


def check_bytes(tenant: str, size: int) -> None:
    """Raises RefusedError."""
    most = of(tenant).max_stored_bytes
    stored = StoredFile.objects.filter(tenant=tenant).aggregate(bytes=Sum("bytes"))["bytes"] or 0
    if most and stored + size > most:
        raise RefusedError(
            f"Files of {stored} bytes are kept, and {most} are allowed: delete some.", "file", "storage_limit_reached"
        )
