"""Benchmarks of a replica: the form that starts one, and the page of a job with the steps that it has measured."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from controlplane.accounts import rights
from controlplane.accounts.core.actions import RUN_JOBS
from controlplane.dashboard.views.common import page
from controlplane.dashboard.views.planning.frame import framed
from controlplane.dashboard.views.planning.jobs import job_row, jobs_context
from controlplane.fleet.models import Pool
from controlplane.planning.benchmark import run
from controlplane.planning.benchmark.wanted import LIMIT_S, MIX_DAYS, TARGET, measured_lengths, objectives_of, replicas
from controlplane.planning.core.judging import StepFigures
from controlplane.planning.jobs import JobRefusedError
from controlplane.planning.models import GpuType, PlanJob, PoolCapacity
from controlplane.telemetry.store import StoreError, StoreUnavailableError

NUMBERS = ("input_tokens", "output_tokens", "ttft_ms", "e2e_ms", "target", "slots", "limit_s")
COUNTS = ("slots", "limit_s")


@require_http_methods(["GET", "HEAD", "POST"])
@page
def planning_benchmark(request: HttpRequest) -> HttpResponse:
    """`?pool=` chooses the pool. A POST starts the benchmark, and shows the form again where it is refused."""
    given: Mapping[str, str] = request.POST.dict() if request.method == "POST" else {}
    refused = ""
    if request.method == "POST":
        rights.require_anywhere(request.user, RUN_JOBS)
        try:
            job = run.start(of_form(given), request.user.get_username(), rights.guard(request.user, RUN_JOBS))
        except JobRefusedError as error:
            refused = str(error)
        else:
            return HttpResponseRedirect(reverse("planning-job", args=(job.pk,)))
    pools = {pool.name: pool for pool in Pool.objects.select_related("variant__model", "region")}
    name = given.get("pool") or request.GET.get("pool", "")
    pool = pools.get(name) or next(iter(pools.values()), None)
    context: dict[str, Any] = {
        "pools": list(pools),
        "pool": pool,
        "given": {"limit_s": f"{LIMIT_S}", **given},
        "refused": refused,
        "target": f"{TARGET:g}",
        "gpus": list(GpuType.objects.values_list("name", flat=True)),
        "days": MIX_DAYS,
        "missing": ["There is no pool: make one under Fleet in the admin"],
    }
    if pool is not None:
        context |= _of_pool(pool)
    return framed(request, "Measure a replica", "_benchmark.html", context, status=409 if refused else 200)


@require_safe
def planning_job(request: HttpRequest, number: int) -> HttpResponse:
    """A job with its progress. While it runs the page's data renew themselves."""
    job = get_object_or_404(PlanJob, pk=number)
    context = {**_job(job), "next": request.path}
    if request.GET.get("part") == "job":
        response = render(request, "dashboard/planning/_job.html", context)
        response["Cache-Control"] = "no-store"
        return response
    return framed(request, f"Job {job.pk}", "_job.html", context | jobs_context(request))


def of_form(given: Mapping[str, str]) -> dict[str, Any]:
    """The job's request. Raises JobRefusedError for what is no number."""
    wanted: dict[str, Any] = {name: given.get(name, "").strip() for name in ("pool", "replica", "gpu")}
    for name in NUMBERS:
        if text := given.get(name, "").strip().replace(",", "."):
            try:
                wanted[name] = int(text) if name in COUNTS else float(text)
            except ValueError:
                raise JobRefusedError(
                    f"{name}={text[:40]!r} is no {'whole ' * (name in COUNTS)}number: write one such as 300"
                ) from None
    if given.get("despite_traffic"):
        wanted["despite_traffic"] = True
    return {name: value for name, value in wanted.items() if value != ""}


def _of_pool(pool: Pool) -> dict[str, Any]:
    """What is known of the pool already."""
    own = PoolCapacity.objects.select_related("gpu_type").filter(pool=pool).first()
    context: dict[str, Any] = {
        "gpu": own.gpu_type.name if own and own.gpu_type else "",
        "objectives": [str(criterion) for criterion in objectives_of(pool)],
        "concurrency": pool.replica_concurrency,
    }
    try:
        context["replicas"] = replicas(pool.name)
    except JobRefusedError as error:
        context["unusable"] = str(error)
    try:
        lengths = measured_lengths(pool.name)
    except (StoreUnavailableError, StoreError):
        lengths = ()
    if lengths:
        inputs, outputs = (sum(each) / len(lengths) for each in zip(*lengths, strict=True))
        context |= {"mix": {"requests": len(lengths), "inputs": inputs, "outputs": outputs}}
    return context


def _job(job: PlanJob) -> dict[str, Any]:
    row = job_row(job)
    steps = [StepFigures(**step) for step in job.result.get("steps", ())]
    best = max((step.requests_per_s for step in steps if step.kept), default=None)
    return {"row": row, "job": job, "result": job.result, "steps": steps, "best": best, "wanted": _wanted(job)}


def _wanted(job: PlanJob) -> str:
    return ", ".join(f"{name} {value}" for name, value in job.request.items())
