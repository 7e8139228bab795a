"""Events of jobs and batches, as a tenant reads them through the gateway."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp

from tests.support.gateway.process import KEY
from tests.support.lane.process import Stack, a_line


class Event(NamedTuple):
    id: str
    kind: str
    data: dict[str, Any]

    @property
    def told(self) -> tuple[str, str]:
        return self.data["data"]["id"], self.data["data"]["status"]


@asynccontextmanager
async def reading(
    stack: Stack, path: str, after: str = "", key: str = KEY, status: int = 200
) -> AsyncIterator[AsyncIterator[Event]]:
    headers = {"authorization": f"Bearer {key}", **({"last-event-id": after} if after else {})}
    url = f"{stack.gateway.base_url}{path}"
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        assert answer.status == status, await answer.text()
        yield events_of(answer)


async def events_of(answer: aiohttp.ClientResponse) -> AsyncIterator[Event]:
    fields: dict[str, str] = {}
    async for line in answer.content:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name:
            fields[name] = value
        elif "event" in fields:
            yield Event(fields.get("id", ""), fields["event"], json.loads(fields["data"]))
            fields = {}


def new_job(stack: Stack, text: str, key: str = KEY) -> str:
    body = {"endpoint": "/v1/chat/completions", "body": a_line("", text)["body"], "metadata": {"row": "7"}}
    status, _, answer = stack.gateway.ask("POST", "/v1/jobs", json.dumps(body).encode(), key)
    assert status == 200
    return str(json.loads(answer)["id"])
