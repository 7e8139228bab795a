"""Shapes of silences."""

from datetime import datetime

from ninja import Field, Schema

from controlplane.api.formats import Given, Matcher, Moment, Number, Text
from controlplane.api.listing import MOST
from controlplane.incidents.models.silence import MAX_MATCHERS


class SilenceParameters(Schema):
    over: bool = Field(False, description="Include those that are over")
    limit: int = Field(100, ge=1, le=MOST)
    before: Number | None = Field(None, description="Only silences of a lower number: `next_before` of the page before")


class SilenceIn(Given):
    matchers: list[Matcher] = Field(
        min_length=1,
        max_length=MAX_MATCHERS,
        description="NAME=VALUE or NAME!=VALUE, all of which must match; `*` stands for anything",
    )
    starts_at: Moment | None = Field(None, description="Now, if left out")
    ends_at: Moment
    reason: Text = Field(max_length=500)


class SilenceChange(Given):
    ends_at: Moment | None = None
    reason: Text | None = Field(None, max_length=500)


class SilenceOut(Schema):
    number: int
    matchers: list[str]
    starts_at: datetime
    ends_at: datetime
    author: str
    reason: str
    hides: int = Field(description="Open incidents whose pages it holds back")


class SilencesOut(Schema):
    """The newest first."""

    silences: list[SilenceOut]
    next_before: int | None = Field(description="Give it as `before` for the next page")
