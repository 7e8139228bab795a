"""`POST scores`: what clients and evaluators say of answers. Canaries compare it."""

import time

from django.http import HttpRequest
from ninja import Router

from controlplane.api.schemas.policies.scores import ScoredOut, ScoresIn
from controlplane.policy import rights
from controlplane.telemetry.core.canary_rows import Score
from controlplane.telemetry.query import answers

router = Router(tags=["scores"])


@router.post("/scores", response=ScoredOut, summary="Say how good answers were")
def score(request: HttpRequest, given: ScoresIn) -> dict[str, int]:
    """The latest of a request and name counts. A score of a request that nobody knows counts nowhere."""
    rights.require(request.user, rights.SCORE)
    scores = [Score(each.request_id.lower(), each.name, each.value) for each in given.scores]
    answers.store().writer.insert_scores(scores, time.time_ns())
    return {"stored": len(scores)}
