"""`planning/jobs`: lists, starts and cancels the long work of planners."""

from datetime import datetime
from typing import Any, Literal

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Field, Query, Router, Schema, Status

from controlplane.accounts import rights
from controlplane.accounts.core.actions import RUN_JOBS
from controlplane.api.formats import Given, Number
from controlplane.api.listing import ListParameters, newest_first
from controlplane.planning import jobs
from controlplane.planning.models import PlanJob

router = Router(tags=["planning"])


class JobParameters(ListParameters):
    limit: int = Field(50, ge=1, le=500)


class JobIn(Given):
    kind: Literal["refresh", "measure"] = Field(
        description="refresh: makes all forecasts anew; measure: measures capacities, cold starts and hit rates"
    )


class JobOut(Schema):
    number: int = Field(validation_alias="pk")
    kind: str
    state: str = Field(description="queued, running, done, failed or cancelled")
    author: str = Field(description="Empty: by schedule")
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    done: int = Field(description="Steps that are done")
    total: int = Field(description="Steps in all; 0 before it is known")
    note: str
    error: str
    cancel_requested: bool
    result: dict[str, Any] = Field(description="What came of it")


class JobsOut(Schema):
    """The newest first."""

    jobs: list[JobOut]
    next_before: int | None


@router.get("/jobs", response=JobsOut, summary="Jobs of planners, the newest first")
def all_jobs(request: HttpRequest, parameters: Query[JobParameters]) -> dict[str, Any]:
    return newest_first(PlanJob.objects.all(), parameters, "jobs")


@router.post("/jobs", response={202: JobOut}, summary="Start a job; one that is open already is answered instead")
def new_job(request: HttpRequest, given: JobIn) -> Status[PlanJob]:
    rights.require(request.user, RUN_JOBS)
    return Status(202, jobs.start(given.kind, author=request.user.get_username()))


@router.get("/jobs/{int:number}", response=JobOut, summary="One job, with its progress")
def one_job(request: HttpRequest, number: Number) -> PlanJob:
    return get_object_or_404(PlanJob, pk=number)


@router.post("/jobs/{int:number}/cancel", response=JobOut, summary="Cancel it; one that has ended stays as it is")
def cancel_job(request: HttpRequest, number: Number) -> PlanJob:
    rights.require(request.user, RUN_JOBS)
    job = get_object_or_404(PlanJob, pk=number)
    jobs.cancel(job)
    return job
