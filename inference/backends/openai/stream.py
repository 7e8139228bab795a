"""An answer of an OpenAI-compatible server, which is handed on as it comes."""

import asyncio
import time
from collections.abc import Callable, Sequence

from inference.backends.openai.link import HttpLink, error_of
from inference.core.backend_errors import BackendError, BusyError, FailedError, InvalidError, RefusedError, ServerAnswer
from inference.core.events import ABORTED, UNCOUNTED, Event, Head, Usage
from inference.core.passing.answers import NOTHING, Reader, Seen
from inference.core.passing.blocks import MAX_EVENT_BYTES, Block, Blocks
from inference.core.servers.refusals import Refusal, read_event
from inference.wires.http.response import LostError, NotHttpError, Response

_COUNTS_WITHIN_S = 10.0
"""After all choices have ended: a server that is busy may take so long to say what they took. Then the answer ends without its counts."""
_END_WITHIN_S = 1.0
"""After the server has said that this is all: it may have more to say."""

Rename = Callable[[bytes], bytes]
"""Puts the client's name of the model in the place of the server's, in a JSON object."""


class HttpStream:
    """`rename` is None where both names are the same. With `counts_are_ours` the gateway has asked for counts that its client
    has not: the client does not get the event that brings them. What comes before the first token comes along with it, so
    that until then the request may still go elsewhere. Nothing is read ahead of the caller, so a caller that does not read
    slows the server down.
    """

    waiting = False

    __slots__ = (
        "_blocks",
        "_body",
        "_early",
        "_ended",
        "_error",
        "_failure",
        "_given",
        "_has_begun",
        "_held_bytes",
        "_kept_back",
        "_link",
        "_reader",
        "_ready",
        "_rename",
        "_response",
        "_tail",
        "_waited_s",
        "_withholds",
        "awaited_since_s",
        "head",
    )

    def __init__(
        self,
        link: HttpLink,
        response: Response,
        head: Head,
        reader: Reader,
        rename: Rename | None,
        *,
        counts_are_ours: bool,
    ) -> None:
        self.head = head
        self.awaited_since_s = 0.0
        self._link = link
        self._response: Response | None = response
        self._body = response
        self._reader = reader
        self._rename = rename
        self._withholds = counts_are_ours
        self._blocks = Blocks()
        self._kept_back: list[bytes] = []  # until the first token
        self._ready: list[Event] = []
        self._has_begun = False  # the answer, so that nothing of it is kept back
        self._given = False  # whether the caller has something of the answer
        self._ended = False
        self._failure: BackendError | None = None
        self._error: BackendError | None = None  # that the server has said in the stream
        self._tail: list[bytes] = []  # from there on
        self._waited_s = 0.0  # for what comes after all is said
        self._held_bytes = 0  # that have come before the first token, and after an error
        self._early: Usage | None = None  # counts that came before the first token

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
            said_all = self._reader.ended or self._error is not None
            settled = self._reader.settled or said_all
            try:
                data = self._body.take()
                if not data:
                    if settled:
                        began_s = time.monotonic()
                        async with asyncio.timeout(_END_WITHIN_S - self._waited_s if said_all else _COUNTS_WITHIN_S):
                            data = await self._body.read()
                        self._waited_s += time.monotonic() - began_s if said_all else 0.0
                    else:
                        self.awaited_since_s = time.monotonic()
                        data = await self._body.read()
                        self.awaited_since_s = 0.0
                self._link.arrivals += 1
                self._take(data)
            except (LostError, NotHttpError, TimeoutError, BackendError) as error:
                if settled and not isinstance(error, BackendError):
                    self.head = self.head._replace(cut=not self._reader.ended)
                    self._take(b"")  # its choices are whole, whatever became of the rest
                else:
                    self._fail(_failure(error))  # after what came before it
        self._given = True
        events, self._ready = self._ready, []
        return events

    def cancel(self) -> None:
        """Close the connection, by which servers see that nobody reads any more. Harmless at the end."""
        self._ended = True
        if self._response is not None:
            response, self._response = self._response, None
            self._link.release(response)

    def take_whole(self, body: bytes) -> None:
        """Take an answer that did not come as a stream. Raises BackendError."""
        if not body:
            raise FailedError("its answer is empty", "bad_response")
        is_encoded = any(name == b"content-encoding" for name, _ in self.head.headers)
        seen = NOTHING if is_encoded else self._reader.see_all(body)
        if seen.finish_reason == ABORTED:
            raise self._aborted()
        raw = self._named(body)
        if seen.error:
            error = _error(read_event(body))
            error.answer = ServerAnswer(self.head.status, self.head.headers, raw)
            raise error
        tokens = UNCOUNTED if self._reader.generates else 0  # unless its server has counted them
        self._ready.append(Event(finish_reason=seen.finish_reason, usage=seen.usage, tokens=tokens, raw=raw))
        self._finish()

    def _take(self, data: bytes) -> None:
        """Take what has come; nothing is the end, with or without [DONE]."""
        if not self._given or self._error is not None:
            self._held_bytes += len(data)
            if self._held_bytes > MAX_EVENT_BYTES:
                raise FailedError(f"more than {MAX_EVENT_BYTES} bytes of its stream are no answer", "answer_too_long")
        parts: list[bytes] = []
        tokens = 0
        for block in self._blocks.feed(data) if data else self._blocks.last():
            if self._error is not None:
                self._tail.append(block.raw)
                continue
            if self._reader.ended:
                parts.append(block.raw)  # such as comments
                continue
            seen = self._reader.see(block)
            if seen.error:
                self._give(parts, tokens)
                parts, tokens = [], 0
                self._error, self._tail = _error(read_event(block.data)), [block.raw]
                continue
            if seen.finish_reason == ABORTED:
                self._give(parts, tokens)
                raise self._aborted()
            if self._reader.ended and not self._reader.whole:
                break
            raw = b"" if self._withholds and seen.counts_alone else self._named(block.raw, block)
            if not self._has_begun:
                self._has_begun = seen.begins or seen.tokens > 0 or bool(seen.finish_reason)
            if seen.finish_reason or (seen.usage is not None and self._has_begun):
                self._give(parts, tokens)
                self._ready.append(self._event(raw, seen))
                parts, tokens = [], 0
            else:
                self._early = seen.usage or self._early
                tokens += seen.tokens
                parts.append(raw)
        self._give(parts, tokens)
        if not data or (self._reader.ended and not self._reader.whole):
            self._end()

    def _give(self, parts: list[bytes], tokens: int) -> None:
        if self._has_begun:
            if raw := b"".join((*self._kept_back, *parts)):
                self._ready.append(Event(tokens=tokens, usage=self._early, raw=raw))
                self._early = None
            self._kept_back.clear()
        else:
            self._kept_back += parts

    def _event(self, raw: bytes, seen: Seen) -> Event:
        raw = b"".join((*self._kept_back, raw))
        self._kept_back.clear()
        usage, self._early = seen.usage or self._early, None
        return Event(finish_reason=seen.finish_reason, usage=usage, tokens=seen.tokens, raw=raw)

    def _named(self, raw: bytes, block: Block | None = None) -> bytes:
        if self._rename is None:
            return raw
        if block is None:
            return self._rename(raw)
        if block.data.lstrip()[:1] != b"{":
            return raw
        for old, new in zip(block.data.split(b"\n"), self._rename(block.data).split(b"\n"), strict=True):
            raw = raw.replace(old, new, 1) if old != new else raw  # each has a line of its own
        return raw

    def _fail(self, error: BackendError) -> None:
        self.cancel()
        self._failure = error

    def _aborted(self) -> BackendError:
        if self._given or self._ready:
            return FailedError("the server gave the answer up", ABORTED)
        return RefusedError("the server gave the answer up before its first token", ABORTED)

    def _end(self) -> None:
        """The server has ended the stream. If the client has something of the answer, it gets a server's error as it is too."""
        error = self._error
        if error is not None:
            tail = b"".join(self._tail)
            if self._given or self._ready:
                self._ready.append(Event(tokens=0, raw=tail))
                error.answer = ServerAnswer(0)
            else:
                error.answer = ServerAnswer(self.head.status, self.head.headers, b"".join(self._kept_back) + tail)
            self._fail(error)
        elif not self._reader.whole:
            self._fail(FailedError("it ended its answer without saying why", "no_finish_reason"))
        else:
            self._finish()

    def _finish(self) -> None:
        """The answer has ended: the connection is kept if the response has too."""
        if self._kept_back:
            self._ready.append(Event(tokens=0, usage=self._early, raw=b"".join(self._kept_back)))
            self._kept_back.clear()
        self.cancel()


def _error(refusal: Refusal) -> BackendError:
    if refusal.kind == "busy":
        return BusyError(refusal.what, "busy", said=refusal.said)
    if refusal.kind == "invalid":
        return InvalidError(refusal.message, 400, refusal.param or "", refusal.code)
    return FailedError(refusal.what, "stream_error", refusal.said)


def _failure(error: Exception) -> BackendError:
    return error if isinstance(error, BackendError) else error_of(error)
