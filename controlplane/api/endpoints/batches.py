"""`batches` and `waiting-jobs`: those of every tenant, for operators. Tenants have the gateway's `/v1/batches` and `/v1/jobs`."""

from typing import Any

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from django.utils import timezone
from ninja import Path, Query, Router, Status

from controlplane.api.formats import Name
from controlplane.api.schemas.batches import BatchesOut, BatchOut, BatchParameters, WaitingJobParameters, WaitingJobsOut
from controlplane.lane import report, rights
from controlplane.lane.core import states
from controlplane.lane.models import Batch
from controlplane.lane.store import batches

router = Router(tags=["batches"])


@router.get("/batches", response=BatchesOut, summary="Batches of every tenant, the newest first, and how far they are")
def all_batches(request: HttpRequest, parameters: Query[BatchParameters]) -> dict[str, Any]:
    rows, next_before = report.listed(
        parameters.tenant, parameters.status, parameters.before, parameters.limit, timezone.now()
    )
    return {"rows": rows, "next_before": next_before}


@router.get("/batches/{name}", response=BatchOut, summary="One batch")
def one_batch(request: HttpRequest, name: Path[Name]) -> report.Standing:
    return _standing(_batch(name))


@router.post("/batches/{name}/cancel", response=BatchOut, summary="Cancel it; it keeps what it has")
def cancel_batch(request: HttpRequest, name: Path[Name]) -> report.Standing:
    rights.require(request.user)
    return _standing(batches.cancel(_batch(name).tenant, name))


@router.post("/batches/{name}/retry", response={202: BatchOut}, summary="Run its failed lines again, as a new batch")
def retry_batch(request: HttpRequest, name: Path[Name]) -> Status[report.Standing]:
    rights.require(request.user)
    return Status(202, _standing(batches.retry(_batch(name))))


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
