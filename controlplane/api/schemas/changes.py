"""Shapes of changes."""

from datetime import datetime

from ninja import Field, Schema

from controlplane.api.formats import Given, Link, Moment, Name, Text, Words


class ChangeIn(Given):
    identity: Name = Field(description="Such as deployment/gateway/2.1; each is recorded once")
    summary: Text = Field(max_length=1024)
    source: Name
    at: Moment | None = None
    team: Words = Field("", max_length=200)
    scope: dict[Name, Name] = Field({}, description="What it touches, by dimension; empty is everything")
    link: Link = ""


class ChangeOut(Schema):
    number: int = Field(validation_alias="pk")
    identity: str
    summary: str
    source: str
    at: datetime
    team: str
    scope: dict[str, str]
    link: str


class ChangesOut(Schema):
    """The newest first, by their number."""

    changes: list[ChangeOut]
    next_before: int | None


class ChangedOut(Schema):
    is_new: bool = Field(serialization_alias="told", description="False if it was recorded before")
