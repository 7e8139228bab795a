"""`planning/jobs`: lists, starts and cancels the long work of planners."""

from datetime import datetime
from typing import Any, Literal

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Field, Query, Router, Schema, Status

from controlplane.accounts import rights
from controlplane.accounts.core.actions import RUN_JOBS
from controlplane.api.formats import Given, Number, Slug, Text
from controlplane.api.listing import ListParameters, newest_first
from controlplane.planning import jobs
from controlplane.planning.benchmark import run as benchmark
from controlplane.planning.benchmark.wanted import (
    LIMIT_S,
    MAX_LIMIT_S,
    MAX_SLOTS,
    MAX_TARGET,
    MAX_THRESHOLD_MS,
    MAX_TOKENS,
    MIN_LIMIT_S,
    MIN_TARGET,
    TARGET,
)
from controlplane.planning.models import PlanJob

router = Router(tags=["planning"])


class JobParameters(ListParameters):
    limit: int = Field(50, ge=1, le=500)


class BenchmarkIn(Given):
    """What a benchmark of a replica is to measure."""

    pool: Slug
    replica: Text = Field("", max_length=200, description="Empty: the pool's first")
    gpu: Text = Field("", max_length=63, description="The replica's GPU type; empty: the pool's")
    input_tokens: float | None = Field(
        None, ge=1, le=MAX_TOKENS, description="Of each request; without both, the mix that the ledger measured"
    )
    output_tokens: float | None = Field(None, ge=1, le=MAX_TOKENS)
    ttft_ms: float | None = Field(
        None, ge=1, le=MAX_THRESHOLD_MS, description="Without both thresholds, the pool's latency objectives count"
    )
    e2e_ms: float | None = Field(None, ge=1, le=MAX_THRESHOLD_MS)
    target: float | None = Field(
        None,
        ge=MIN_TARGET,
        le=MAX_TARGET,
        description=f"Share of requests within the thresholds; without it {TARGET:g}",
    )
    slots: int | None = Field(
        None,
        ge=1,
        le=MAX_SLOTS,
        description="Requests at the replica at a time; without it, as many as gateways send it",
    )
    limit_s: int = Field(LIMIT_S, ge=MIN_LIMIT_S, le=MAX_LIMIT_S, description="It never takes longer")
    despite_traffic: bool = Field(False, description="Also where users send requests to the replica just now")


class JobIn(Given):
    kind: Literal["refresh", "measure", "benchmark"] = Field(
        description="refresh: makes all forecasts anew; measure: measures capacities, cold starts and hit rates; benchmark: measures "
        "what a replica carries"
    )
    benchmark: BenchmarkIn | None = Field(None, description="Of kind benchmark alone")


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
    result: dict[str, Any] = Field(
        description="What came of it; of a benchmark also the steps that it has measured so far"
    )


class JobsOut(Schema):
    """The newest first."""

    jobs: list[JobOut]
    next_before: int | None


@router.get("/jobs", response=JobsOut, summary="Jobs of planners, the newest first")
def all_jobs(request: HttpRequest, parameters: Query[JobParameters]) -> dict[str, Any]:
    return newest_first(PlanJob.objects.all(), parameters, "jobs")


@router.post("/jobs", response={202: JobOut}, summary="Start a job; one that is open already is answered instead")
def new_job(request: HttpRequest, given: JobIn) -> Status[PlanJob]:
    rights.require_anywhere(request.user, RUN_JOBS)
    author = request.user.get_username()
    if given.kind == benchmark.KIND:
        if given.benchmark is None:
            raise jobs.JobRefusedError(
                "benchmark is missing: say what to measure, such as {'pool': 'chat-large-local'}"
            )
        job = benchmark.start(
            given.benchmark.model_dump(exclude_unset=True), author, rights.guard(request.user, RUN_JOBS)
        )
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
    job = rights.row_for(request.user, RUN_JOBS, PlanJob, pk=number)
    jobs.cancel(job)
    return job
