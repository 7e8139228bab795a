"""`GET requests`: rows of the ledger, paged by cursor."""

from django.http import HttpRequest
from ninja import Query, Router

from controlplane.api.query_parameters import question_of
from controlplane.api.schemas.requests import RequestParameters, RequestsOut
from controlplane.telemetry.query import answers
from controlplane.telemetry.store.read.requests import RequestPage

router = Router(tags=["requests"])


@router.get("", response=RequestsOut, summary="Requests, slowest or newest first")
def requests(request: HttpRequest, parameters: Query[RequestParameters]) -> RequestPage:
    question = question_of(request)
    return answers.requests(question, parameters.order, parameters.limit, parameters.cursor, *parameters.e2e_ns)
