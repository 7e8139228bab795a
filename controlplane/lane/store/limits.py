"""What owners allow tenants to leave with the lane."""

from datetime import timedelta

from django.db.models import F, Sum

from controlplane.lane.core import states
from controlplane.lane.core.lines import Problem, RefusedError
from controlplane.lane.models import Batch, Line, StoredFile, TenantLimits

TOO_MANY = "too_many_queued_requests"


def of(tenant: str) -> TenantLimits:
    """Its own, or those of every tenant without any."""
    rows = {row.tenant: row for row in TenantLimits.objects.filter(tenant__in=(tenant, ""))}
    return rows.get(tenant) or rows.get("") or TenantLimits(tenant=tenant)


class FullError(Exception):
    """Retryable, once others have ended: no more of the tenant may be here."""

    def __init__(self, message: str, code: str = TOO_MANY) -> None:
        super().__init__(message)
        self.code = code


def kept(tenant: str) -> timedelta:
    """For how long its jobs are kept after their end."""
    return timedelta(hours=of(tenant).job_retention_hours)


def problems(batch: Batch, lines: int) -> list[Problem]:
    """Why the batch may not run beside the tenant's others."""
    message = _over(of(batch.tenant), batch.tenant, lines)
    return [Problem(TOO_MANY, message)] if message else []


def check_job(its: TenantLimits, tenant: str, size: int) -> None:
    """Raises FullError, RefusedError."""
    if message := _over(its, tenant, 1):
        raise FullError(message)
    check_bytes(its, tenant, size)


def _over(its: TenantLimits, tenant: str, lines: int) -> str:
    """What is wrong with so many lines more, if it is."""
    if not (most := its.max_lines):
        return ""
    others = Batch.objects.filter(tenant=tenant, status__in=states.OPEN)
    queued = others.aggregate(lines=Sum(F("total") - F("completed") - F("failed")))["lines"] or 0
    if queued + lines <= most:
        return ""
    return (
        f"{queued} other lines wait and {lines} are here; {most} may wait at a time. Try again once others have ended."
    )


def check_bytes(its: TenantLimits, tenant: str, size: int) -> None:
    """Raises RefusedError."""
    if not (most := its.max_stored_bytes):
        return
    stored = StoredFile.objects.filter(tenant=tenant).aggregate(all=Sum("bytes"))["all"] or 0
    of_jobs = Line.objects.filter(batch__tenant=tenant).exclude(batch__kind=states.BATCH)
    stored += of_jobs.aggregate(all=Sum(F("length") + F("result_length") + F("events_bytes")))["all"] or 0
    if stored + size > most:
        raise RefusedError(
            f"{stored} bytes of files and jobs are kept, and {most} are allowed: delete some.",
            None,
            "storage_limit_reached",
        )
