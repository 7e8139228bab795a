"""`GET requests.csv` and `GET requests.parquet`: request rows in bulk, streamed."""

import asyncio
from collections.abc import AsyncIterator, Iterator

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse
from ninja import Query, Router

from controlplane.api.endpoints.requests import ExportParameters
from controlplane.api.filters import question_of
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.core.question import Question
from controlplane.telemetry.store.read.export import CONTENT_TYPES, Format

router = Router(tags=["requests"])


@router.get("/requests.csv", summary="All requests of a range as CSV")
def requests_csv(request: HttpRequest, parameters: Query[ExportParameters]) -> StreamingHttpResponse:
    return exported(request, question_of(request), "csv", *parameters.e2e_ns)


@router.get("/requests.parquet", summary="All requests of a range as Parquet")
def requests_parquet(request: HttpRequest, parameters: Query[ExportParameters]) -> StreamingHttpResponse:
    return exported(request, question_of(request), "parquet", *parameters.e2e_ns)


def exported(
    request: HttpRequest, question: Question, form: Format, min_e2e_ns: int = 0, max_e2e_ns: int | None = None
) -> StreamingHttpResponse:
    """Never more than a batch of rows in memory. Raises BadQuestionError, before anything is sent, where there are too many."""
    chunks = answers.export(question, form, min_e2e_ns, max_e2e_ns)
    content = aside(chunks) if isinstance(request, ASGIRequest) else chunks
    return StreamingHttpResponse(
        content,
        content_type=CONTENT_TYPES[form],
        headers={"Content-Disposition": f'attachment; filename="requests.{form}"', "Cache-Control": "no-store"},
    )


async def aside(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Reads the chunks in threads: under ASGI Django would read a plain iterator to its end before it sends any."""
    while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
        yield chunk
