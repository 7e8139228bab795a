"""Shapes of silences."""

from datetime import datetime

from ninja import Field, Schema

from controlplane.api.formats import Given, Matcher, Moment, Text
from controlplane.api.listing import ListParameters
from controlplane.incidents.act import silencing
from controlplane.incidents.models import SilenceRecord
from controlplane.incidents.models.silence import MAX_MATCHERS


class SilenceParameters(ListParameters):
    over: bool = Field(False, description="Include those that are over")


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
    number: int = Field(validation_alias="pk")
    matchers: list[str]
    starts_at: datetime
    ends_at: datetime
    author: str
    reason: str
    hides: int = Field(description="Open incidents whose pages it holds back")

    @staticmethod
    def resolve_hides(silence: SilenceRecord) -> int:
        return silencing.hidden(silence)


class SilencesOut(Schema):
    """The newest first."""

    silences: list[SilenceOut]
    next_before: int | None = Field(description="Give it as `before` for the next page")
