"""`GET requests.csv` and `GET requests.parquet`: request rows in bulk, sent as they are read."""

import asyncio
from collections.abc import AsyncIterator, Iterator

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse
from ninja import Query, Router

from controlplane.api.query_parameters import asked
from controlplane.api.schemas.common import Asked
from controlplane.telemetry.query import answers
from controlplane.telemetry.store.read.export import CONTENT_TYPES, Format

router = Router(tags=["requests"])


@router.get("/requests.csv", summary="All requests of a range as CSV")
def requests_csv(request: HttpRequest, parameters: Query[Asked]) -> StreamingHttpResponse:
    return exported(request, "csv")


@router.get("/requests.parquet", summary="All requests of a range as Parquet")
def requests_parquet(request: HttpRequest, parameters: Query[Asked]) -> StreamingHttpResponse:
    return exported(request, "parquet")


def exported(request: HttpRequest, form: Format) -> StreamingHttpResponse:
    """Never more than a batch of rows in memory. Raises BadQuestionError, before anything is sent, where there are too many."""
    pieces = answers.export(asked(request), form)
    content = aside(pieces) if isinstance(request, ASGIRequest) else pieces
    return StreamingHttpResponse(
        content,
        content_type=CONTENT_TYPES[form],
        headers={"Content-Disposition": f'attachment; filename="requests.{form}"', "Cache-Control": "no-store"},
    )


async def aside(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The same, read in threads: under ASGI Django would hold all of a plain iterator in memory before it sends any."""
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        yield piece
