"""Shapes of scores."""

from typing import Annotated

from ninja import Field, Schema

from controlplane.api.formats import Given, Slug, TraceId

MAX_SCORES = 1_000
MAX_VALUE = 1e12


class ScoreIn(Given):
    request_id: TraceId = Field(description="`x-request-id` of the answer, which is the request's trace")
    name: Annotated[Slug, Field(max_length=63)] = Field(description="What is scored, such as helpfulness")
    value: float = Field(ge=-MAX_VALUE, le=MAX_VALUE, description="A higher one is better")


class ScoresIn(Given):
    scores: list[ScoreIn] = Field(min_length=1, max_length=MAX_SCORES)


class ScoredOut(Schema):
    stored: int
