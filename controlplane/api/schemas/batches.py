"""Shapes of batches and jobs."""

from datetime import datetime
from typing import Literal

from ninja import Field, Schema

from controlplane.api.formats import Count, Finite, Name, Number

Status = Literal["validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"]


class BatchParameters(Schema):
    tenant: list[Name] = Field([], max_length=50)
    status: list[Status] = Field([], max_length=8)
    before: Number | None = Field(None, description="`next_before` of the page before")
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
    status: Status = Field(validation_alias="batch.status")
    total: Count = Field(validation_alias="batch.total")
    completed: Count = Field(validation_alias="batch.completed")
    failed: Count = Field(validation_alias="batch.failed")
    errors_by_kind: dict[str, int] = Field(description="By HTTP status, or by the code of errors without an answer")
    problems: list[BatchProblemOut] = Field(validation_alias="batch.problems")
    input_tokens: int = Field(validation_alias="batch.input_tokens")
    output_tokens: int = Field(validation_alias="batch.output_tokens")
    rate_per_s: Finite = Field(description="Lines with a result, the mean since the first could run")
    ends_at: datetime | None = Field(description="When the last line has its result, at that rate")
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
