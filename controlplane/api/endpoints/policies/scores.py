"""`POST scores`: what clients and evaluators say of answers. Canaries compare it."""

import time
from typing import Annotated

from django.http import HttpRequest
from ninja import Field, Router, Schema

from controlplane.accounts import rights
from controlplane.accounts.core.actions import SEND_SCORES
from controlplane.api.formats import Given, Slug, TraceId
from controlplane.telemetry.core.canary_rows import Score
from controlplane.telemetry.query import answers

router = Router(tags=["scores"])
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


@router.post("/scores", response=ScoredOut, summary="Say how good answers were")
def score(request: HttpRequest, given: ScoresIn) -> dict[str, int]:
    """The latest of a request and name counts. A score of a request that nobody knows counts nowhere."""
    rights.require(request.user, SEND_SCORES)
    scores = [Score(each.request_id.lower(), each.name, each.value) for each in given.scores]
    answers.store().writer.insert_scores(scores, time.time_ns())
    return {"stored": len(scores)}
