"""Shapes of planners' jobs."""

from datetime import datetime
from typing import Literal

from ninja import Field, Schema

from controlplane.api.formats import Given, Number
from controlplane.api.listing import MOST


class JobParameters(Schema):
    limit: int = Field(50, ge=1, le=MOST)
    before: Number | None = Field(None, description="Only jobs of a lower number: `next_before` of the page before")


class JobIn(Given):
    kind: Literal["refresh", "measure"] = Field(
        description="refresh: makes all forecasts anew; measure: measures capacities, cold starts and hit rates"
    )


class JobOut(Schema):
    number: int
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


class JobsOut(Schema):
    """The newest first."""

    jobs: list[JobOut]
    next_before: int | None
