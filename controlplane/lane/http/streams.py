"""Streams of responses in the background, from any event on: the same bytes, however often they are read."""

import asyncio
import time

from aiohttp import web
from django.db import DatabaseError

from controlplane.lane.http.edge import in_thread
from controlplane.lane.objects import Objects
from controlplane.lane.store import events
from controlplane.lane.store.events import BEGIN
from controlplane.lane.store.files import NotThereError
from controlplane.lane.streams import Pulse

_POLL_S = 0.5
"""How often the database is asked, where another lane may run the line."""
_SILENT_S = 15.0
"""After so long without an event a comment is sent, so that nobody takes the connection for dead."""


async def follow(
    request: web.Request, tenant: str, name: str, objects: Objects, pulse: Pulse, after: int
) -> web.StreamResponse:
    """Every event whose number is above `after`, those that are there and those that come. Raises NotThereError, RefusedError."""
    more = await in_thread(lambda: events.after(tenant, name, objects, BEGIN))
    out = web.StreamResponse(headers={"content-type": "text/event-stream", "cache-control": "no-cache"})
    await out.prepare(request)
    sent_s, number = time.monotonic(), 0
    try:
        while True:
            wanted = more.events[max(0, after + 1 - number) :]
            number += len(more.events)
            if wanted or time.monotonic() - sent_s > _SILENT_S:
                await out.write(b"".join(wanted) or b": waiting\n\n")
                sent_s = time.monotonic()
            if more.ended:
                break
            await pulse.wait(_POLL_S)
            if request.transport is None or request.transport.is_closing():
                return out  # nobody reads it
            at = more.at
            more = await in_thread(lambda at=at: events.after(tenant, name, objects, at))  # type: ignore[misc]
        await out.write_eof()
    except (DatabaseError, OSError, NotThereError, asyncio.CancelledError) as error:
        if request.transport is not None:
            request.transport.abort()  # so that nobody takes it for the end
        if isinstance(error, asyncio.CancelledError):
            raise
    return out
