"""`planning/jobs`: lists, starts and cancels the long work of planners."""

from typing import Any

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Query, Router, Status

from controlplane.api.formats import Number
from controlplane.api.listing import newest_first
from controlplane.api.schemas.plan_jobs import JobIn, JobOut, JobParameters, JobsOut
from controlplane.planning import jobs, rights
from controlplane.planning.benchmark import run as benchmark
from controlplane.planning.models import PlanJob

router = Router(tags=["planning"])


@router.get("/jobs", response=JobsOut, summary="Jobs of planners, the newest first")
def all_jobs(request: HttpRequest, parameters: Query[JobParameters]) -> dict[str, Any]:
    return newest_first(PlanJob.objects.all(), parameters, "jobs")


@router.post("/jobs", response={202: JobOut}, summary="Start a job; one that is open already is answered instead")
def new_job(request: HttpRequest, given: JobIn) -> Status[PlanJob]:
    rights.require(request.user, rights.START_JOB)
    author = request.user.get_username()
    if given.kind == benchmark.KIND:
        if given.benchmark is None:
            raise jobs.JobRefusedError(
                "benchmark is missing: say what to measure, such as {'pool': 'chat-large-local'}"
            )
        job = benchmark.start(given.benchmark.model_dump(exclude_unset=True), author)
    elif given.benchmark is not None:
        raise jobs.JobRefusedError(f"benchmark is for a job of that kind, and kind is {given.kind!r}: leave it out")
    else:
        job = jobs.start(given.kind, author=author)
    return Status(202, job)


@router.get("/jobs/{int:number}", response=JobOut, summary="One job, with its progress")
def one_job(request: HttpRequest, number: Number) -> PlanJob:
    return get_object_or_404(PlanJob, pk=number)


@router.post("/jobs/{int:number}/cancel", response=JobOut, summary="Cancel it; one that has ended stays as it is")
def cancel_job(request: HttpRequest, number: Number) -> PlanJob:
    rights.require(request.user, rights.CANCEL_JOB)
    job = get_object_or_404(PlanJob, pk=number)
    jobs.cancel(job)
    return job
