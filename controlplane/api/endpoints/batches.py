"""`batches` and `waiting-jobs`: those of every tenant, for operators. Tenants have the gateway's `/v1/batches` and `/v1/jobs`."""

from datetime import datetime
from typing import Any, Literal

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from django.utils import timezone
from ninja import Field, Path, Query, Router, Schema, Status

from controlplane.accounts import rights
from controlplane.accounts.core.actions import RUN_BATCHES
from controlplane.api.formats import Count, Finite, Name
from controlplane.api.listing import ListParameters
from controlplane.lane import report
from controlplane.lane.core import states
from controlplane.lane.models import Batch
from controlplane.lane.store import batches

router = Router(tags=["batches"])
BatchStatus = Literal[
    "validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"
]


class BatchParameters(ListParameters):
    tenant: list[Name] = Field([], max_length=50)
    status: list[BatchStatus] = Field([], max_length=8)
    limit: int = Field(50, ge=1, le=500)


class BatchProblemOut(Schema):
    """Why a batch failed before a line ran. Line 0 is the file."""

    line: Count
    code: str
    message: str
    param: str


class BatchOut(Schema):
    """`rate_per_s` and `ends_at` are null while no line has a result."""

    name: str = Field(validation_alias="batch.name")
    tenant: str = Field(validation_alias="batch.tenant")
    endpoint: str = Field(validation_alias="batch.endpoint")
    model: str = Field(validation_alias="batch.model", description="Of its first line")
    status: BatchStatus = Field(validation_alias="batch.status")
    total: Count = Field(validation_alias="batch.total")
    completed: Count = Field(validation_alias="batch.completed")
    failed: Count = Field(validation_alias="batch.failed")
    errors_by_kind: dict[str, int] = Field(description="By HTTP status, or by the code of errors without an answer")
    problems: list[BatchProblemOut] = Field(validation_alias="batch.problems")
    input_tokens: int | None = Field(description="Null where an answer does not say how many")
    output_tokens: int | None
    rate_per_s: Finite = Field(description="Lines with a result, the mean since the first could run")
    ends_at: datetime | None = Field(
        description="When the last line has its result, at that rate; null while no lane runs lines"
    )
    retry_of: str = Field(validation_alias="batch.retry_of", description="The batch whose failed lines it runs again")
    created_at: datetime = Field(validation_alias="batch.created_at")
    expires_at: datetime = Field(validation_alias="batch.expires_at")
    ended_at: datetime | None = Field(validation_alias="batch.ended_at")


class BatchesOut(Schema):
    rows: list[BatchOut]
    next_before: int | None


class WaitingJobParameters(Schema):
    tenant: list[Name] = Field([], max_length=50)


class TenantJobsOut(Schema):
    """Of its jobs and background responses. `oldest_queued_at` is null where none waits."""

    tenant: str
    counts: dict[str, int] = Field(
        description="By status: queued, in_progress, and while they are kept completed, incomplete, failed, expired, cancelled"
    )
    oldest_queued_at: datetime | None = Field(description="When the oldest that has not begun was made")
    callbacks_pending: Count
    callbacks_refused: Count


class WaitingJobsOut(Schema):
    rows: list[TenantJobsOut]


@router.get("/batches", response=BatchesOut, summary="Batches of every tenant, the newest first, and how far they are")
def all_batches(request: HttpRequest, parameters: Query[BatchParameters]) -> dict[str, Any]:
    rows, next_before = report.listed(parameters.dict(), parameters.before, parameters.limit, timezone.now())
    return {"rows": rows, "next_before": next_before}


@router.get("/batches/{name}", response=BatchOut, summary="One batch")
def one_batch(request: HttpRequest, name: Path[Name]) -> report.Standing:
    return _standing(_batch(name))


@router.post("/batches/{name}/cancel", response=BatchOut, summary="Cancel it; it keeps what it has")
def cancel_batch(request: HttpRequest, name: Path[Name]) -> report.Standing:
    batch = rights.row_by(request.user, RUN_BATCHES, lambda: _batch(name))
    return _standing(batches.cancel(batch.tenant, name))


@router.post("/batches/{name}/retry", response={202: BatchOut}, summary="Run its failed lines again, as a new batch")
def retry_batch(request: HttpRequest, name: Path[Name]) -> Status[report.Standing]:
    batch = rights.row_by(request.user, RUN_BATCHES, lambda: _batch(name))
    return Status(202, _standing(batches.retry(batch)))


@router.get(
    "/waiting-jobs",
    response=WaitingJobsOut,
    summary="How many jobs and background responses each tenant has, by status",
)
def waiting_jobs(request: HttpRequest, parameters: Query[WaitingJobParameters]) -> dict[str, Any]:
    return {"rows": report.jobs(parameters.tenant)}


def _batch(name: str) -> Batch:
    return get_object_or_404(Batch, name=name, kind=states.BATCH)


def _standing(batch: Batch) -> report.Standing:
    return report.standings([batch], timezone.now())[0]
