"""Streams that the gateway has begun with comments, because their server was silent for long: what it says then reaches the client."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from inference.backends.openai import OpenAIConnector
from inference.contract.snapshot import Endpoint, Pool
from tests.support.gateway.scripted import a_snapshot, serve_pools
from tests.support.servers.saying import Verbatim

HELLO: list[Any] = [{"role": "user", "content": "hello"}]
REFUSED = b'{\n "error": {"message": "no: \xc3\xbc", "type": "BadRequestError", "code": 400}}'


@pytest.fixture
async def verbatim() -> AsyncIterator[Verbatim]:
    async with Verbatim().serving() as server:
        server.begins.clear()
        server.content_type = "application/json"
        yield server


@pytest.fixture
async def client(
    verbatim: Verbatim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[openai.AsyncOpenAI]:
    monkeypatch.setenv("WEIR_KEEPALIVE_MS", "10")
    pool = Pool("p", "v", "r", "m", "", (Endpoint("r0", url=verbatim.url),), protocol="openai")
    async with serve_pools(OpenAIConnector, a_snapshot(pool), tmp_path, monkeypatch) as client:
        yield client


async def begun(client: openai.AsyncOpenAI, api: str) -> Any:
    """A stream of which the client has the head."""
    if api == "messages":
        root = str(client.base_url).removesuffix("/v1/")
        other = anthropic.AsyncAnthropic(base_url=root, auth_token=client.api_key, max_retries=0)
        return await other.messages.create(model="m", max_tokens=9, messages=HELLO, stream=True)
    if api == "responses":
        return await client.responses.create(model="m", input=HELLO, stream=True)
    if api == "completions":
        return await client.completions.create(model="m", prompt="hello", stream=True)
    return await client.chat.completions.create(model="m", messages=HELLO, stream=True)


@pytest.mark.parametrize("api", ["chat", "completions", "responses", "messages"])
@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (400, REFUSED, "no: \u00fc"),
        (400, b'{"message": "no", "object": "error"}', "HTTP 400"),
        (500, b"<html>", "The model failed to answer"),
        (200, b'{"choices": []}', "Its server answered at once"),
    ],
    ids=["its own words", "of another shape", "no JSON", "no stream"],
)
async def test_an_error_reaches_each_client(
    client: openai.AsyncOpenAI, verbatim: Verbatim, api: str, status: int, body: bytes, said: str
) -> None:
    verbatim.status, verbatim.parts = status, [body]
    stream = await begun(client, api)
    verbatim.begins.set()
    with pytest.raises((openai.APIError, anthropic.APIError), match=said):
        async for _ in stream:
            pass
