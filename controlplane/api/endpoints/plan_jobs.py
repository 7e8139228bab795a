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
    shown, next_before = newest_first(PlanJob.objects.order_by("-pk"), parameters.before, parameters.limit)
    return {"jobs": [job_out(job) for job in shown], "next_before": next_before}


@router.post("/jobs", response={202: JobOut}, summary="Start a job; one that is open already is answered instead")
def new_job(request: HttpRequest, given: JobIn) -> Status[dict[str, Any]]:
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
    return Status(202, job_out(job))


@router.get("/jobs/{int:number}", response=JobOut, summary="One job, with its progress")
def one_job(request: HttpRequest, number: Number) -> dict[str, Any]:
    return job_out(get_object_or_404(PlanJob, pk=number))


@router.post("/jobs/{int:number}/cancel", response=JobOut, summary="Cancel it; one that has ended stays as it is")
def cancel_job(request: HttpRequest, number: Number) -> dict[str, Any]:
    rights.require(request.user, rights.CANCEL_JOB)
    job = get_object_or_404(PlanJob, pk=number)
    jobs.cancel(job)
    return job_out(job)


def job_out(job: PlanJob) -> dict[str, Any]:
    columns = (
        "kind", "state", "author", "created_at", "started_at", "ended_at", "done", "total", "note", "error", "cancel_requested",
        "result",
    )  # fmt: skip
    return {"number": job.pk, **{name: getattr(job, name) for name in columns}}
