"""`GET requests`: rows of the ledger, paged by cursor."""

from django.http import HttpRequest
from ninja import Field, Query, Router, Schema

from controlplane.api.filters import RequestFilters, question_of
from controlplane.api.formats import Cursor
from controlplane.telemetry.core.query_types import Order
from controlplane.telemetry.query import answers
from controlplane.telemetry.store.read.requests import RequestPage
from inference.contract.metering.text_audit import NO_KEY

router = Router(tags=["requests"])


class ExportParameters(RequestFilters):
    min_ms: float = Field(0, ge=0, le=1e9, description="Only requests whose E2E is at least this")
    max_ms: float | None = Field(None, ge=0, le=1e9, description="Only requests whose E2E is below this")

    @property
    def e2e_ns(self) -> tuple[int, int | None]:
        """The bounds on E2E."""
        return round(self.min_ms * 1e6), None if self.max_ms is None else round(self.max_ms * 1e6)


class RequestParameters(ExportParameters):
    order: Order = Field("slowest")
    limit: int = Field(50, ge=1, le=1000)
    cursor: Cursor | None = Field(None, description="`next_cursor` of the page before")


class AttemptOut(Schema):
    """One call to one replica."""

    pool: str
    replica: str
    outcome: str = Field(description="ok, error, or cancelled: no client waited for it any more")
    error_type: str
    retried: bool = Field(description="Another attempt followed")
    ns: int = Field(description="From its start to its end")
    model_ns: int = Field(description="Of the request's stage `model`")


class RequestOut(Schema):
    """One row of the ledger: `stages` and `unattributed_ns` sum to `e2e_ns`."""

    trace_id: str
    request_id: str
    entry_start_ns: int
    start_ns: int
    end_ns: int
    e2e_ns: int
    stages: dict[str, int]
    unattributed_ns: int
    prefill_ns: int
    decode_ns: int
    ttft_ns: int | None
    ttft_definition: str
    status: str
    http_status: int | None
    error_type: str
    error_stage: str
    operation: str
    service: str
    model: str
    variant: str
    pool: str
    replica: str
    region: str = Field(description="Of the pool that served it")
    caller_region: str = Field(description="Where it came from, as the gateway knows it; empty for unknown")
    tier: str
    tenant: str
    prompt_tokens: int | None
    prompt_bucket: str
    cached_tokens: int | None = Field(
        description="Of the prompt's, those that its server had in its cache of prefixes; null where it does not say"
    )
    output_tokens: int | None
    cache_outcome: str
    stream: bool
    cold_start: bool
    cost_usd: float | None = Field(
        description="null: nobody has entered a price for what served it, or it used nothing"
    )
    policy_version: int | None
    policy_rule: str = Field(description="The routing rule that it followed; empty for none")
    degraded: str = Field(description="The step of a ladder that changed or refused it; empty for none")
    guard: str = Field(description="Which rules of its tenant did what; empty for none")
    prompt_hash: str = Field(
        description=f"Where its tenant's texts are audited, else empty. “{NO_KEY}”: its gateway has none"
    )
    prompt_bytes: int | None
    answer_hash: str = Field(description="Of what was sent of it: of a part, where the status is not ok")
    answer_bytes: int | None
    span_count: int
    adapter: str
    critical_path: list[str]
    attempts: list[AttemptOut] = Field(description="In order; empty if the spans do not name the replicas")
    unmeasured: bool = Field(
        description="A server's spans are missing: its queue and network times are unknown, and part of `model`"
    )


class RequestsOut(Schema):
    rows: list[RequestOut]
    next_cursor: str | None


@router.get("", response=RequestsOut, summary="Requests, slowest or newest first")
def requests(request: HttpRequest, parameters: Query[RequestParameters]) -> RequestPage:
    question = question_of(request)
    return answers.requests(question, parameters.order, parameters.limit, parameters.cursor, *parameters.e2e_ns)
