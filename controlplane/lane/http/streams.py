"""Streams of server-sent events. Those of responses in the background begin at any event: the same bytes, however often they are read."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from aiohttp import web
from django.db import DatabaseError

from controlplane.lane.objects.port import Objects
from controlplane.lane.store import events
from controlplane.lane.store.events import BEGIN
from controlplane.lane.store.files import NotThereError
from controlplane.lane.streams import Pulse
from controlplane.lane.threads import in_thread

_POLL_S = 0.5
_SILENT_S = 15.0
"""After so long without an event something else is sent, so that nobody takes the connection for dead."""
_UNREAD_S = 60.0


async def relay(
    request: web.Request,
    pulse: Pulse,
    poll_s: float,
    read: Callable[[], tuple[bytes, bool]],
    idle: Callable[[], bytes] = lambda: b": waiting\n\n",
) -> web.StreamResponse:
    """What `read` has, in a thread, until it says that it was all. It is asked again after a beat, and after `poll_s`, since another lane
    may have changed something. `idle` is sent in place of nothing. What it raises at first is the answer to the request.
    """
    data, ended = await in_thread(read)
    out = web.StreamResponse(headers={"content-type": "text/event-stream", "cache-control": "no-cache"})
    await out.prepare(request)
    sent_s = float("-inf")  # the head of the answer leaves with its first bytes
    with cut_off(request):
        while True:
            if data or time.monotonic() - sent_s > _SILENT_S:
                async with asyncio.timeout(_UNREAD_S):
                    await out.write(data or idle())
                sent_s = time.monotonic()
            if ended:
                break
            await pulse.wait(poll_s)
            if request.transport is None or request.transport.is_closing():
                return out  # nobody reads it
            data, ended = await in_thread(read)
        await out.write_eof()
    return out


@contextmanager
def cut_off(request: web.Request) -> Iterator[None]:
    """Around what is sent of an answer that has begun. What goes wrong ends the connection, so that nobody takes what was sent for all."""
    try:
        yield
    except (DatabaseError, OSError, NotThereError, asyncio.CancelledError) as error:
        if request.transport is not None:
            request.transport.abort()
        if isinstance(error, asyncio.CancelledError):
            raise


async def follow(
    request: web.Request, tenant: str, name: str, objects: Objects, pulse: Pulse, after: int
) -> web.StreamResponse:
    """Every event of a response whose number is above `after`, those that are there and those that come. Raises NotThereError,
    RefusedError.
    """
    at = BEGIN

    def read() -> tuple[bytes, bool]:
        nonlocal at
        more = events.after(tenant, name, objects, at)
        wanted = more.events[max(0, after + 1 - at.number) :]
        at = more.at
        return b"".join(wanted), more.ended

    return await relay(request, pulse, _POLL_S, read)
