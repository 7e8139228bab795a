"""`GET tenants/{name}` and `GET tenants/{name}/texts`: what the people of a tenant see of it."""

from datetime import datetime
from typing import Any

from django.http import HttpRequest, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from ninja import Field, Path, Query, Router, Schema

from controlplane.accounts import rights
from controlplane.accounts.core.actions import SEE_TENANT
from controlplane.api.endpoints.batches import BatchOut, TenantJobsOut
from controlplane.api.endpoints.export import exported
from controlplane.api.endpoints.latency import FailureOut, ReportOut, report_out
from controlplane.api.filters import question_of
from controlplane.api.formats import TIME, Finite, Instant, Name
from controlplane.fleet.models import Tenant
from controlplane.telemetry.query.core.question import DEFAULT_FROM, DEFAULT_TO, Question
from controlplane.tenants import figures

router = Router(tags=["tenants"])


class TenantParameters(Schema):
    from_: Instant = Field(DEFAULT_FROM, alias="from", description=TIME)
    to: Instant = Field(DEFAULT_TO, description=TIME)


class CostOut(Schema):
    """Of answers that a replica made. `unpriced`: how many of them have no price, and are in no sum."""

    model: str
    usd: Finite
    prompt_tokens: int
    output_tokens: int
    unpriced: int


class KeyOut(Schema):
    """A limit or budget of 0 is none of its own."""

    name: str = Field(validation_alias="key.name")
    prefix: str = Field(validation_alias="key.prefix", description="Its first characters")
    enabled: bool = Field(validation_alias="key.enabled")
    created_at: datetime = Field(validation_alias="key.created_at")
    expires_at: datetime | None = Field(validation_alias="key.expires_at")
    models: list[str] = Field(description="The only ones that it may use; none: all")
    requests_per_minute: int = Field(validation_alias="key.requests_per_minute")
    tokens_per_minute: int = Field(validation_alias="key.tokens_per_minute")
    max_in_flight: int = Field(validation_alias="key.max_in_flight")
    usd_per_day: float = Field(validation_alias="key.usd_per_day")
    usd_per_month: float = Field(validation_alias="key.usd_per_month")
    spent_usd: dict[str, float] | None = Field(
        description="`usd_day` and `usd_month`; null without a budget, or while it is not known"
    )
    used_ns: int | None = Field(description="When its newest request of the range ended; null: none in it")


class TenantOut(Schema):
    name: str
    from_ns: int
    to_ns: int
    report: ReportOut
    failures: list[FailureOut] = Field(description="Errors and refusals by reason, the most frequent first; at most 50")
    costs: list[CostOut]
    keys: list[KeyOut]
    keys_left_out: int
    batches: list[BatchOut] = Field(description="The newest 20")
    jobs: TenantJobsOut | None


@router.get("/{name}", response=TenantOut, summary="Latency, failures, costs, keys and jobs of one tenant")
def tenant(request: HttpRequest, name: Path[Name], parameters: Query[TenantParameters]) -> dict[str, Any]:
    rights.require(request.user, SEE_TENANT, figures.owned(name))
    get_object_or_404(Tenant, name=name)
    seen = figures.figures(name, question_of(request), timezone.now())
    window = seen.question.range.window
    same = {name: getattr(seen, name) for name in ("failures", "costs", "keys", "keys_left_out", "batches", "jobs")}
    return {"name": name, "from_ns": window.from_ns, "to_ns": window.to_ns, "report": report_out(seen.report), **same}


@router.get("/{name}/texts", summary="The audit of a tenant's texts as JSON lines: hashes and sizes, no text")
def texts(request: HttpRequest, name: Path[Name], parameters: Query[TenantParameters]) -> StreamingHttpResponse:
    rights.require(request.user, SEE_TENANT, figures.owned(name))
    get_object_or_404(Tenant, name=name)
    return exported(request, Question(question_of(request).range, {"tenant": (name,)}), "jsonl")
