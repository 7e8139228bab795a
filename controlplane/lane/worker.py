"""Runs lines through the gateway, as many at a time as their models' pools have room for.

Results are written in groups: while one group is being written, the next gathers. Only lines that are in flight are claimed, so that a
worker's death repeats no more than these.
"""

import asyncio
import random
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import NamedTuple, TypeVar

import aiohttp
import msgspec
import structlog
from django.db import DatabaseError, close_old_connections
from prometheus_client import Counter, Gauge, Histogram

from controlplane.lane.core import lines, results, states
from controlplane.lane.core.events import Events
from controlplane.lane.core.flow import Windows
from controlplane.lane.core.states import Again
from controlplane.lane.objects.port import Objects, Place
from controlplane.lane.store import claims, jobs
from controlplane.lane.store.claims import Claimed, LeaseLostError, Result
from controlplane.lane.streams import Pulse, Streams
from inference.contract.lane import KEY_HEADER, LATE, OWN_TIER_HEADER, WAITED_FOR, authorization, room_of

log = structlog.get_logger(__name__)

LINES = Counter(
    "weir_lane_lines", "Attempts at lines that have ended, by what follows: done, refused, again.", ["status"]
)
for _status in ("done", "refused", "again"):
    LINES.labels(_status)  # 0 is known from the start
IN_FLIGHT = Gauge("weir_lane_lines_in_flight", "Lines at the gateway.")
COMMIT_SECONDS = Histogram(
    "weir_lane_commit_seconds",
    "Writing a group of results, to the disk and to the database.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
)

POLL_S = 1.0
"""How often a worker with free places looks for lines, and whether its lines are its own still. A cancelled line ends within it."""
GRACE_S = 10.0
"""How long lines in flight may go on when the process is asked to end. The rest is given back."""
ALONE_EVERY_S = 60.0
"""How often a busy worker lets its lines end so as to run one alone."""
_PAUSE_S = 1.0
_SILENT_S = 30
_MAX_ANSWER_BYTES = 16 << 20
_TIMEOUT = aiohttp.ClientTimeout(total=3_600.0, sock_connect=5.0)

T = TypeVar("T")


def _watched(address: aiohttp.AddrInfoType) -> socket.socket:
    """One whose kernel asks a silent gateway for signs of life after _SILENT_S, and gives it up after three more like it. An answer may
    take as long as it likes, and a host that has vanished says nothing.
    """
    made = socket.socket(*address[:3])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _SILENT_S)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _SILENT_S // 3)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    return made


class Ended(NamedTuple):
    """A line that has ended, and the text of its result if it has one."""

    result: Result
    text: bytes = b""
    events: bytes = b""  # that are written with it
    events_offset: int = 0


class Worker:
    """`places`: lines in flight at a time, at most, and as many more that somebody waits for. `at_rest` is called when the last of them has
    ended: a batch may be at its end.
    """

    def __init__(
        self,
        objects: Objects,
        gateway_url: str,
        token: str,
        places: int,
        lease: timedelta,
        at_rest: Callable[[], None] = lambda: None,
        pulse: Pulse | None = None,
    ) -> None:
        self.id = 0
        self.last_exchange_s = time.monotonic()
        self._objects, self._url, self._token, self._places = objects, gateway_url.rstrip("/"), token, places
        self._lease, self._at_rest = lease, at_rest
        self._running: dict[tuple[int, int], asyncio.Task[None]] = {}
        self._soonest: set[tuple[int, int]] = set()  # of those that run
        self._windows = Windows(places)
        self._ended: list[Ended] = []
        self._changed = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="lane-worker")
        self._failed = False
        self._alone_at_s = time.monotonic() + ALONE_EVERY_S
        self._drains = self._runs_alone = False
        IN_FLIGHT.set_function(lambda: len(self._running))
        self._session: aiohttp.ClientSession | None = None
        self._pulse = pulse or Pulse()
        self._streams = Streams(objects, self._in_thread, self._pulse)

    def wake(self) -> None:
        """There may be lines."""
        self._changed.set()

    async def run(self, stopping: asyncio.Event) -> None:
        """Until `stopping`; then lines in flight may end for GRACE_S."""
        connector = aiohttp.TCPConnector(limit=0, socket_factory=_watched)
        async with aiohttp.ClientSession(connector=connector, timeout=_TIMEOUT) as self._session:
            waiter = asyncio.ensure_future(stopping.wait())
            waiter.add_done_callback(lambda _: self._changed.set())
            streaming = asyncio.create_task(self._streams.run())
            try:
                while not stopping.is_set():
                    await self._pause()
                    await self._round(claims_more=not stopping.is_set())
                await self._finish()
            finally:
                waiter.cancel()
                streaming.cancel()
                self._thread.shutdown(wait=False)

    async def _pause(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_S):
                await self._changed.wait()
        self._changed.clear()

    async def _round(self, *, claims_more: bool) -> None:
        """Write what has ended, take new lines, and give up those that are this worker's no more."""
        ended, self._ended = self._ended, []
        idle, before = not self._running, set(self._running)
        self._runs_alone = self._runs_alone and not idle
        full = not claims_more or self._runs_alone or (self._drains and not idle)
        soonest = 0 if full else self._places - len(self._soonest)
        places = 0 if full else self._places - len(self._running) + len(self._soonest)
        try:
            claimed, mine = await self._in_thread(lambda: self._exchange(ended, before, places, soonest, idle=idle))
        except LeaseLostError:
            log.warning("lane.lease_lost", worker=self.id, lines=len(self._running))
            self._forget()
            return
        except (DatabaseError, OSError) as error:
            self._ended = ended + self._ended
            if not self._failed:
                log.warning("lane.store_failed", reason=str(error), lines=len(self._running))
            self._failed = True
            await asyncio.sleep(_PAUSE_S)
            self._changed.set()
            return
        if self._failed:
            log.info("lane.store_recovered")
        self._failed = False
        self.last_exchange_s = time.monotonic()
        for key in before - mine:
            if task := self._running.get(key):
                task.cancel()
        self._runs_alone = self._runs_alone or any(line.alone for line in claimed)
        for line in claimed:
            self._running[line.line, line.attempt] = asyncio.create_task(self._run(line))
            if line.soonest:
                self._soonest.add((line.line, line.attempt))
        if ended:
            self._pulse.beat()
        if ended and not self._running:
            self._at_rest()

    def _exchange(
        self, ended: Sequence[Ended], running: set[tuple[int, int]], places: int, soonest: int, *, idle: bool
    ) -> tuple[list[Claimed], set[tuple[int, int]]]:
        """In the thread. Raises LeaseLostError, DatabaseError, OSError."""
        if not self.id:
            self.id = claims.register(self._lease)
        if ended:
            with COMMIT_SECONDS.time():
                try:
                    stored = self._stored(ended)
                except OSError:
                    claims.renew(self.id, self._lease)  # what cannot be written is kept for as long as that lasts
                    raise
                claims.commit(stored)
        if self._failed:  # the last may have been done all the same
            claims.give_back(self.id, running)
        if time.monotonic() >= self._alone_at_s:
            self._alone_at_s = time.monotonic() + ALONE_EVERY_S
            self._drains = claims.has_lonely()
        if not places and not soonest:
            claims.renew(self.id, self._lease)
            return [], claims.in_flight(self.id)
        claimed: list[Claimed] = []
        if self._drains and idle:
            self._drains = False
            claimed = claims.claim(self.id, 1, self._lease, alone=True)
        room = self._windows.room
        claimed = claimed or claims.claim(self.id, places, self._lease, soonest=soonest, room=room)
        if not claimed and idle:
            claimed = claims.claim(self.id, 1, self._lease, alone=True)
        return claimed, claims.in_flight(self.id)

    def _stored(self, ended: Sequence[Ended]) -> list[Result]:
        """The results, once their texts are in segments."""
        texts: defaultdict[int, list[bytes]] = defaultdict(list)
        for each in ended:
            texts[each.result.of.batch].append(each.text)
        places = {
            batch: self._objects.append(batch, self.id, b"".join(its)) for batch, its in texts.items() if any(its)
        }
        out = []
        for result, text, events, events_offset in ended:
            if events:
                self._objects.write_events(result.of.batch, result.of.attempt, events_offset, events)
                result = result._replace(events_bytes=events_offset + len(events))
            if text:
                segment, offset = places[result.of.batch]
                result = result._replace(segment=segment, offset=offset, length=len(text))
                places[result.of.batch] = Place(segment, offset + len(text))
            out.append(result)
        return out

    async def _run(self, line: Claimed) -> None:
        window = self._windows.of(line.model)
        window.in_flight += not line.soonest
        try:
            ended = await self._attempt(line)
            if line.streams:
                offset, events = await self._streams.end(line)
                if ended.result.verdict == "done":
                    ended = ended._replace(events=events + ended.events, events_offset=offset)
        except asyncio.CancelledError:
            return
        except Exception:
            log.exception("lane.line_failed", batch=line.batch_name, line=line.number)
            ended = Ended(Result(line, states.judge(0, {}, line.tries, random.random())))  # noqa: S311  (no secret)
        finally:
            self._running.pop((line.line, line.attempt), None)
            self._soonest.discard((line.line, line.attempt))
            self._streams.forget(line)
            window.in_flight -= not line.soonest
        verdict = ended.result.verdict
        LINES.labels("again" if isinstance(verdict, Again) else verdict).inc()
        self._ended.append(ended)
        self._changed.set()

    async def _attempt(self, line: Claimed) -> Ended:
        read = partial(self._objects.read, line.input_object, line.offset, line.length)
        request = lines.decode(read() if self._objects.is_near else await asyncio.to_thread(read))
        sent_s = time.monotonic()
        events = Events(await self._in_thread(lambda: jobs.about_of(line.batch))) if line.streams else None
        status, headers, body = await self._call(line, bytes(request.body), events)
        if not line.soonest:  # those have places of their own
            self._windows.of(line.model).answered(status, room_of(headers), sent_s, time.monotonic())
        verdict = states.judge(status, headers, line.tries, random.random())  # noqa: S311
        if isinstance(verdict, Again):
            return Ended(Result(line, verdict, status))
        name = line.batch_name
        if body is None:
            text = results.unanswered(name, line.number, request.custom_id, states.TOO_LONG_CODE)
            return Ended(Result(line, "refused", status, states.TOO_LONG_CODE), text)
        identity = headers.get("x-request-id", "")
        text = results.answered(name, line.number, request.custom_id, status, identity, body)
        result = Result(line, verdict, status)
        if verdict == "done":
            result = result._replace(usage=results.usage_of(body), ends_as=results.ends_as(body))
        return Ended(result, text, events.last if events else b"")

    async def _call(
        self, line: Claimed, body: bytes, events: Events | None = None
    ) -> tuple[int, dict[str, str], bytes | None]:
        """Status, headers by their lower-case names, and body of the answer, None if that is too long. Status 0 is no answer. The body of
        one that streams is what its last `events` has; without that it has broken off, which is no answer.
        """
        assert self._session is not None
        headers = {
            **authorization(self._token),
            KEY_HEADER: line.key_sha256,
            "content-type": "application/json",
            "idempotency-key": f"{line.batch_name}:{line.number}",
            **({OWN_TIER_HEADER: WAITED_FOR if line.soonest else LATE} if line.soonest or line.hurries else {}),
        }
        try:
            async with self._session.post(f"{self._url}{line.endpoint}", data=body, headers=headers) as answer:
                parts, size = [], 0
                streamed = events if answer.status in states.OK and answer.content_type == "text/event-stream" else None
                async for part in answer.content.iter_any():
                    if streamed is not None:
                        self._streams.add(line, streamed.feed(part))
                    else:
                        parts.append(part)
                    size += len(part)
                    if size > _MAX_ANSWER_BYTES:
                        return answer.status, {}, None
                given = {name.lower(): value for name, value in answer.headers.items()}
                if streamed is not None:
                    self._streams.add(line, streamed.end())
                    whole = msgspec.json.encode(streamed.response) if streamed.response else b""
                    return answer.status if whole else 0, given, whole
                return answer.status, given, b"".join(parts)
        except (aiohttp.ClientError, OSError):
            return 0, {}, b""

    async def _finish(self) -> None:
        """Let lines in flight end for a while, write them, and give back the rest."""
        until_s = time.monotonic() + GRACE_S
        while (self._running or self._ended) and time.monotonic() < until_s:
            await self._round(claims_more=False)
            if self._running:
                await self._pause()
        for task in list(self._running.values()):
            task.cancel()
        if self.id:
            with suppress(DatabaseError):
                await self._in_thread(lambda: claims.leave(self.id))

    def _forget(self) -> None:
        """Go on as a new worker: others run the lines by now."""
        self.id = 0
        self._ended.clear()
        for task in list(self._running.values()):
            task.cancel()
        self._running.clear()
        self._soonest.clear()
        self._changed.set()

    async def _in_thread(self, call: Callable[[], T]) -> T:
        def work() -> T:
            try:
                return call()
            except DatabaseError:
                close_old_connections()
                raise

        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
