"""A query that exceeds the store's limits is retryable, and known from a store that is away."""

from contextlib import closing
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web

from controlplane.telemetry.store import Store, StoreLimitError, StoreUnavailableError
from tests.support.http_server import ThreadedServer
from tests.support.telemetry.samples import HOUR

MANY = "SELECT length(groupArray(number)) FROM numbers(20000000) SETTINGS "


@pytest.mark.parametrize(
    "limit", ["max_memory_usage = 1000000", "max_execution_time = 0.01, timeout_overflow_mode = 'throw'"]
)
def test_a_query_beyond_memory_or_time_is_said_to_be(store: Store, limit: str) -> None:
    with pytest.raises(StoreLimitError) as caught:
        store.rows(MANY + limit)
    assert caught.value.retry_after_s > 0


ENDED = b"Code: 241. DB::Exception: Query memory limit exceeded. (MEMORY_LIMIT_EXCEEDED)\n"
"""What a server appends to an answer that it has begun with status 200."""


def test_an_answer_that_the_store_ends_in_the_middle_is_no_answer(dsn: str) -> None:
    address = urlsplit(dsn)

    async def forward(request: web.Request) -> web.Response:
        url = f"http://{address.hostname}:{address.port}{request.path_qs}"
        sent = {name: value for name, value in request.headers.items() if name in ("Authorization", "Content-Type")}
        async with (
            aiohttp.ClientSession() as session,
            session.request(request.method, url, data=await request.read(), headers=sent) as answer,
        ):
            body = await answer.read()
            if body.startswith(b"ARROW1"):
                body = body[: len(body) // 2] + ENDED
            kept = {name: value for name, value in answer.headers.items() if name.startswith("X-ClickHouse")}
            return web.Response(body=body, status=answer.status, headers=kept)

    with ThreadedServer(web.route("*", "/{path:.*}", forward)) as server:
        port = urlsplit(server.url).port
        with closing(Store(dsn.replace(f":{address.port}/", f":{port}/"))) as store:
            assert store.rows("SELECT 1") == [(1,)]
            with pytest.raises(StoreUnavailableError, match="broke off"):
                list(store.exports.batches(HOUR))
