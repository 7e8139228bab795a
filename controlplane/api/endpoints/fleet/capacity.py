"""`PUT planning/capacities/{pool}`: enters what a benchmark, such as `weir bench --into-fleet`, has found."""

from typing import Annotated

from django.http import HttpRequest
from ninja import Body, Field, Router

from controlplane.accounts import rights
from controlplane.accounts.core.actions import EDIT_PLAN
from controlplane.api.formats import Given, Name, Slug, Text
from controlplane.api.steps import DraftedOut, drafted
from controlplane.fleet.models import Pool
from controlplane.planning.enter_benchmark import enter_benchmark
from controlplane.telemetry.query.core.errors import BadQuestionError

router = Router(tags=["planning"])
MAX_TOKENS, MAX_BATCH = 1_000_000, 100_000
Tokens = Annotated[float, Field(ge=1, le=MAX_TOKENS)]


class CapacityIn(Given):
    """What one replica carries."""

    requests_per_s: float = Field(ge=1e-6, le=1e6, description="The most at which it keeps its objectives")
    gpu: Slug = Field("", description="The replica's GPU type; empty: the pool's")
    input_tokens: Tokens | None = Field(None, description="The mean of a request at that load, with output_tokens")
    output_tokens: Tokens | None = None
    batching_factor: float | None = Field(
        None, ge=1e-6, le=MAX_BATCH, description="Mean requests that it works on at that load"
    )
    lower_bound: bool = Field(False, description="No higher load was tried that lost the objectives")
    note: Text = Field("", max_length=300, description="Such as the objectives and the day")
    dry_run: bool = Field(False, description="Only says what would be entered")


class CapacityOut(Given):
    pool: str
    gpu: str
    requests_per_s: float
    entered: bool


@router.put(
    "/capacities/{pool}",
    response={200: CapacityOut, 202: DraftedOut},
    summary="Enter what a benchmark found that a replica carries",
)
@drafted
def capacity(request: HttpRequest, pool: Name, given: Body[CapacityIn]) -> CapacityOut:
    """It replaces what an earlier benchmark of the pool on that GPU type found. A capacity that the ledger measured counts before it. 202
    where the pool's team wants approvals.
    """
    rights.require_anywhere(request.user, EDIT_PLAN)
    row = Pool.objects.filter(name=pool).select_related("capacity__gpu_type").first()
    if row is None:
        raise BadQuestionError("pool", pool, "is not one of the fleet", "Give its name as the admin has it")
    rights.require(request.user, EDIT_PLAN, row)
    own = getattr(row, "capacity", None)
    gpu = given.gpu or (own.gpu_type.name if own and own.gpu_type else "")
    if not gpu:
        raise BadQuestionError(
            "gpu", "", f"is not known of {pool}", "Give it, or enter the pool's GPU type in the admin"
        )
    if (given.input_tokens is None) != (given.output_tokens is None):
        missing = "input_tokens" if given.input_tokens is None else "output_tokens"
        raise BadQuestionError(
            missing, "", "is missing", "Give the means of both, input and output tokens, or of neither"
        )
    rate = given.requests_per_s
    if not given.dry_run:
        rate = enter_benchmark(row, gpu, **given.model_dump(exclude={"gpu", "dry_run"})).requests_per_s
    return CapacityOut(pool=pool, gpu=gpu, requests_per_s=rate, entered=not given.dry_run)
