"""Sends each request to a recording server and, through the gateway, to another one of the same kind, and says what differs beyond
what docs/gateway.md names.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx2
import openai

from tests.support.transparent.queries import Query, requests
from tests.support.transparent.standin import FAULT, MODEL, Recorder

COUNTED = ("/v1/chat/completions", "/v1/completions")
_ASKS_FOR_COUNTS = b'"stream_options":{"include_usage":true}'
_LONG_S = 60.0


@dataclass
class Differences:
    """Each is said in a line."""

    compared: int = 0
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)  # by path, of the answers through the gateway
    requests: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)


class _Recording(httpx2.AsyncBaseTransport):
    """Keeps the last answer as it came."""

    def __init__(self) -> None:
        self._inner = httpx2.AsyncHTTPTransport()
        self.last: tuple[int, str, bytes] = (0, "", b"")

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        body = await response.aread()
        self.last = (response.status_code, response.headers.get("content-type", ""), body)
        return httpx2.Response(response.status_code, headers=response.headers, content=body, request=request)


class End:
    """One way to a server: `base` is its URL with /v1."""

    def __init__(self, base: str, key: str) -> None:
        import anthropic  # as long to import as a third of all else that tests do

        self._transport = _Recording()
        self._http = httpx2.AsyncClient(transport=self._transport, timeout=_LONG_S)
        self._root = base.removesuffix("/v1")
        self._key = {"Authorization": f"Bearer {key}"}
        self._openai = openai.AsyncOpenAI(base_url=base, api_key=key, http_client=self._http, max_retries=0)
        self._refusals = (openai.APIError, anthropic.APIError)
        self._anthropic = anthropic.AsyncAnthropic(
            base_url=self._root, api_key=key, http_client=self._http, max_retries=0
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def send(self, query: Query) -> tuple[int, str, bytes]:
        """Status, content type and body of the answer."""
        self._transport.last = (0, "", b"")
        try:
            if query.by == "post":
                headers = {**self._key, "Content-Type": query.content_type}
                await self._http.post(self._root + query.path, content=query.body, headers=headers)
            else:
                await self._by_client(query)
        except self._refusals:
            pass  # its status and body are compared
        return self._transport.last

    async def _by_client(self, query: Query) -> None:
        resource: Any = {
            "/v1/chat/completions": self._openai.chat.completions,
            "/v1/completions": self._openai.completions,
            "/v1/responses": self._openai.responses,
            "/v1/embeddings": self._openai.embeddings,
            "/v1/messages": self._anthropic.messages,
        }[query.path]
        fields: dict[str, Any] = {"model": MODEL, **query.fields}
        named = {
            name: fields.pop(name) for name in ("model", "messages", "prompt", "input", "max_tokens") if name in fields
        }
        if query.streams:
            named["stream"] = True
        answer = await resource.create(**named, extra_body=fields)
        if query.streams:
            async for _ in answer:
                pass


async def compare(direct: Recorder, behind: Recorder, through: str, key: str, seed: int, number: int) -> Differences:
    """`behind` is the server of the gateway whose URL is `through`."""
    found = Differences()
    ends = End(direct.url, "none"), End(through, key)
    try:
        for query in requests(seed, number):
            direct.got.clear()
            behind.got.clear()
            answers = [await end.send(query) for end in ends]
            found.compared += 1
            found.statuses[query.path, answers[1][0]] += 1
            what = f"{query.by} {query.path} {json.dumps(query.fields)[:300]}{query.body[:300]!r}"
            if said := _requests_differ(query, direct, behind):
                found.requests.append(f"{said}: {what}")
            if answers[0] != answers[1]:
                found.answers.append(f"{answers[0]} became {answers[1]}: {what}")
    finally:
        for end in ends:
            await end.close()
    return found


def _requests_differ(query: Query, direct: Recorder, behind: Recorder) -> str:
    if not behind.got:
        return "it was not sent"
    sent, came = direct.got[0], behind.got[0]
    if len(behind.got) > 1 and query.fields.get(FAULT) not in (429, 500, "stream"):
        return f"it was sent {len(behind.got)} times"
    if (sent.path, sent.content_type, sent.query) != (came.path, came.content_type, came.query):
        return f"{sent[:2]} became {came[:2]}"
    wanted = sent.body
    added = []
    if query.path in COUNTED:
        said = json.loads(sent.body)
        if said.get("stream") is True and said.get("stream_options") is None:
            added.append(("stream_options", _ASKS_FOR_COUNTS))
        if said.get("priority") is None:
            added.append(("priority", b'"priority":2'))
    for name, addition in added:
        if name in said:  # null
            wanted = _with(wanted, name, addition)
        else:
            end = wanted.rindex(b"}")
            space = len(wanted[:end]) - len(wanted[:end].rstrip())
            wanted = wanted[: end - space] + b"," + addition + wanted[end - space :]
    return "" if wanted == came.body else f"{wanted!r} became {came.body!r}"


def _with(body: bytes, name: str, addition: bytes) -> bytes:
    """`null` replaced."""
    for space in (b"", b" ", b"\t"):
        for before in (b":", b" :"):
            null = b'"' + name.encode() + b'"' + before + space + b"null"
            if null in body:
                return body.replace(null, null[:-4] + addition.split(b":", 1)[1], 1)
    return body
