"""What is answered where files cannot be read or written. One that has begun is cut off: nobody takes what there is for all of it."""

import asyncio
import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, make_mocked_request

from controlplane.lane.backlog import Estimates
from controlplane.lane.http.edge import edge
from controlplane.lane.http.routes import Routes
from controlplane.lane.models import StoredFile
from controlplane.lane.objects.folder import Folder
from controlplane.lane.objects.port import AwayError
from inference.contract.lane import TENANT_HEADER
from tests.support.wait import WITHIN_S

PART = b"x" * 100_000


async def test_a_file_whose_bucket_goes_away_while_it_is_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = Folder(home / "lane")

    def parts(key: str) -> Iterator[bytes]:
        yield PART
        raise AwayError("no answer")

    async def file(_: web.Request) -> StoredFile:
        return StoredFile(object="0" * 32, bytes=3 * len(PART))

    monkeypatch.setattr(objects, "parts", parts)
    routes = Routes(objects, lambda: None, Estimates())
    monkeypatch.setattr(routes, "_file", file)
    application = web.Application(middlewares=[edge("token")])
    application.add_routes(routes.all())
    async with TestServer(application) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        writer.write(
            f"GET /v1/files/f/content HTTP/1.1\r\nhost: h\r\nauthorization: Bearer token\r\n{TENANT_HEADER}: a\r\n\r\n".encode()
        )
        async with asyncio.timeout(WITHIN_S):
            given = await read_to_the_end(reader)
        writer.close()
    _, _, body = given.partition(b"\r\n\r\n")
    assert body == PART[: len(body)]


@pytest.mark.parametrize("number", [errno.EROFS, errno.EIO, errno.ENOSPC])
async def test_files_that_cannot_be_written_are_said_to_be_so(number: int) -> None:
    async def refuse(_: web.Request) -> web.StreamResponse:
        raise OSError(number, os.strerror(number))

    headers = {"authorization": "Bearer token", TENANT_HEADER: "a"}
    answer = await edge("token")(make_mocked_request("POST", "/v1/files", headers), refuse)
    assert (answer.status, answer.headers["retry-after"]) == (503, "2")


async def read_to_the_end(reader: asyncio.StreamReader) -> bytes:
    """Also of a connection that is reset."""
    given = b""
    with suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            given += data
            assert b"HTTP/1.1 503" not in data, given[:60]
    return given
