"""An answer of an OpenAI-compatible server, as it comes."""

import asyncio
from collections.abc import Sequence

import msgspec

from inference.backends.openai.link import HttpLink, error_of
from inference.core.backend_errors import BackendError, BusyError, FailedError, InvalidError, RefusedError
from inference.core.events import ABORTED, Event, Usage
from inference.core.servers import chunks
from inference.core.servers.refusals import Refusal, read_event
from inference.core.servers.sse import SseReader
from inference.wires.http.response import LostError, NotHttpError, Response

_USAGE_WITHIN_S = 0.5
"""After the last finish reason: then the answer ends without the server's usage."""
_END_WITHIN_S = 1.0
"""After usage or [DONE]: then the connection is closed rather than kept."""


class HttpStream:
    """`choices` is how many finish reasons the answer needs. The last of them is given together with the usage that the
    server sends after it. Nothing is read ahead of the caller, so a caller that does not read slows the server down.
    """

    waiting = False

    __slots__ = (
        "_body",
        "_choices",
        "_ended",
        "_failure",
        "_finished",
        "_given",
        "_last",
        "_link",
        "_reader",
        "_ready",
        "_response",
        "_timer",
        "_usage",
    )

    def __init__(self, link: HttpLink, response: Response, choices: int) -> None:
        self._link = link
        self._response: Response | None = response
        self._body = response
        self._choices = choices
        self._finished: set[int] = set()  # choices with a finish reason
        self._reader = SseReader()
        self._ready: list[Event] = []
        self._last: Event | None = None  # with the last finish reason, held back until the usage
        self._usage: Usage | None = None
        self._given = False  # whether the caller has something of the answer
        self._ended = False
        self._failure: BackendError | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def sent(self) -> None:
        """It has been."""

    async def next(self) -> Sequence[Event]:
        """The events that have come; none at the end. Raises BackendError."""
        while not self._ready:
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            if self._ended:
                return ()
            try:
                data = self._body.take()
                if not data:
                    if self._last is None:
                        data = await self._body.read()
                    else:
                        async with asyncio.timeout(_USAGE_WITHIN_S):
                            data = await self._body.read()
                self._link.arrivals += 1
                self._take(data)
            except (LostError, NotHttpError, TimeoutError, BackendError) as error:
                if self._last is None:
                    self.cancel()
                    self._failure = _failure(error)  # after what came before it
                else:
                    self._finish()  # the answer is whole, whatever became of the rest
        self._given = True
        events, self._ready = self._ready, []
        return events

    def cancel(self) -> None:
        """Close the connection, by which servers see that nobody reads any more. Harmless at the end."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        if self._response is not None:
            response, self._response = self._response, None
            self._link.release(response)

    def take_whole(self, body: bytes) -> None:
        """Take an answer that did not come as a stream. Raises BackendError."""
        self._take_chunk(body)
        if not self._ended:
            self._finish()

    def _take(self, data: bytes) -> None:
        if not data:  # the end, with or without [DONE]
            self._finish()
            return
        for block, name in self._reader.feed(data):
            if name == "error":
                raise _error(read_event(block))
            if block == b"[DONE]":
                self._finish()
            else:
                self._take_chunk(block)
            if self._ended:
                return

    def _take_chunk(self, data: bytes) -> None:
        try:
            chunk = chunks.decode(data)
        except msgspec.DecodeError as error:
            raise FailedError("the server sent what is no chunk of an answer", "bad_response", str(error)) from None
        if chunks.has_error(chunk):
            raise _error(read_event(data))
        for event in chunks.events(chunk):
            if event.finish_reason:
                if event.finish_reason == ABORTED:
                    raise self._aborted()
                self._finished.add(event.choice)
                if len(self._finished) == self._choices:
                    self._last = event
                    continue
            self._ready.append(event)
        if chunk.usage is not None:
            self._usage = chunks.usage(chunk)
            if self._last is not None:
                self._finish()

    def _aborted(self) -> BackendError:
        if self._given or self._ready:
            return FailedError("the server gave the answer up", ABORTED)
        return RefusedError("the server gave the answer up before its first token", ABORTED)

    def _finish(self) -> None:
        """The answer has ended: give what was held back, and keep the connection once the response is at its end too."""
        self._ended = True
        if self._last is None:
            self.cancel()
            return
        self._ready.append(self._last._replace(usage=self._usage))
        self._timer = asyncio.get_running_loop().call_later(_END_WITHIN_S, self.cancel)
        self._body.at_end(self.cancel)


def _error(refusal: Refusal) -> BackendError:
    if refusal.kind == "busy":
        return BusyError(refusal.what, "busy", said=refusal.said)
    if refusal.kind == "invalid":
        return InvalidError(refusal.message, 400, refusal.param or "", refusal.code)
    return FailedError(refusal.what, "stream_error", refusal.said)


def _failure(error: Exception) -> BackendError:
    return error if isinstance(error, BackendError) else error_of(error)
