"""Sends a request to an OpenAI-compatible server, and notes when what came."""

import asyncio
import errno
from array import array
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from inference.contract.address import Url
from inference.contract.errors import PermanentError
from inference.core.backend_errors import FailedError
from inference.core.events import ABORTED, Usage
from inference.core.passing.answers import ChoicesReader
from inference.core.passing.blocks import Blocks
from inference.core.servers import identify, refusals
from inference.loadtest.core.samples import CLIENT_LIMIT, CUT_SHORT, Sample
from inference.loadtest.pacer import now_s
from inference.wires.http.client import UNANSWERED, HttpClient, NotConnectedError, request_of
from inference.wires.http.response import LostError, NotHttpError, Response, TooLongError
from inference.wires.resolver import Resolver

CONNECT_S = 10.0
MAX_BODY_BYTES = 64 << 20
MAX_SAID = 200
_NO_ROOM = frozenset((errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS))
_encode = msgspec.json.Encoder().encode


class TargetError(PermanentError):
    """The server cannot be measured. The text says why."""


class Target(NamedTuple):
    """What is measured. `url` is the base of the API; `headers` carry the key; `extra` is merged into every body, and a null of it
    takes a member out.
    """

    url: Url
    model: str
    route: str  # "/chat/completions" or "/completions"
    headers: Mapping[str, str]
    extra: Mapping[str, Any]
    streams: bool = True

    def body(self, messages: list[dict[str, str]], tokens: int) -> bytes:
        """Of a request for an answer of so many tokens at most."""
        prompt = (
            {"messages": messages}
            if self.route == "/chat/completions"
            else {"prompt": "\n".join(m["content"] for m in messages)}
        )
        counts = {"stream": True, "stream_options": {"include_usage": True}} if self.streams else {}
        members = {"model": self.model, **prompt, "max_tokens": tokens, **counts, **self.extra}
        return _encode({name: value for name, value in members.items() if value is not None})


class Client:
    """`gaps_s` are the times between chunks of all answers. With `keeps_text` the texts of answers are returned."""

    def __init__(self, target: Target, timeout_s: float, *, keeps_text: bool = False) -> None:
        self.target = target
        self.gaps_s = array("f")
        self._http = HttpClient(Resolver(link_local=True), CONNECT_S)
        url = target.url
        self.origin = self._http.origin(url)
        self._url = url._replace(path=url.path + target.route)
        self._headers = {"Content-Type": "application/json", "Accept": "text/event-stream", **target.headers}
        self.timeout_s = timeout_s
        self._keeps_text = keeps_text

    def close(self) -> None:
        self._http.close()

    async def models(self) -> tuple[str, ...]:
        """What the server lists. Raises TargetError."""
        url = self.target.url
        request = request_of("GET", url._replace(path=url.path + "/models"), self.target.headers)
        try:
            async with asyncio.timeout(CONNECT_S):
                status, _, body = await self._http.fetch(url, request, MAX_BODY_BYTES)
        except (*UNANSWERED, TimeoutError) as error:
            raise TargetError(f"{url.host}:{url.port}: {error or 'no answer'}") from None
        listing = identify.read_listing(body, "") if status == 200 else None
        if listing is None:
            remedy = "give a key by WEIR_BENCH_KEY or --key-file" if status == 401 else "name one by --model"
            raise TargetError(f"{url.path}/models: status {status}, and no list of models: {remedy}")
        return listing.models

    async def send(self, sample: Sample, body: bytes, began_s: float = 0.0) -> str:
        """One request to its end, into `sample`. Times are since `began_s`. Returns the answer's text, if it is kept."""
        request = request_of("POST", self._url, self._headers, body)
        sample.sent_s = now_s() - began_s
        try:
            async with asyncio.timeout(self.timeout_s):
                return await self._exchange(sample, request, began_s)
        except TimeoutError:
            self._fail(sample, "timeout", f"not answered within {self.timeout_s:g} s")
        except NotConnectedError as error:
            number = getattr(error.__context__, "errno", None)
            self._fail(sample, CLIENT_LIMIT if number in _NO_ROOM else "no_connection", str(error))
        except LostError as error:
            self._fail(sample, "connection_lost", str(error))
        except (NotHttpError, TooLongError, FailedError) as error:
            self._fail(sample, "bad_answer", str(error))
        except asyncio.CancelledError:
            self._fail(sample, CUT_SHORT, "")
            raise
        finally:
            if sample.failure != CUT_SHORT:
                sample.ended_s = now_s() - began_s
        return ""

    async def _exchange(self, sample: Sample, request: bytes, began_s: float) -> str:
        response = await self._http.call(self.origin, request)
        try:
            sample.status = response.status
            if response.status != 200:
                body = await response.read_all(MAX_BODY_BYTES)
                self._fail(sample, f"http_{response.status}", refusals.read(response.status, body).said)
                return ""
            if response.headers.get(b"content-type", b"").lower().startswith(b"text/event-stream"):
                return await self._stream(sample, response, began_s)
            return await self._whole(sample, response, began_s)
        finally:
            response.release()

    async def _whole(self, sample: Sample, response: Response, began_s: float) -> str:
        body = await response.read_all(MAX_BODY_BYTES)
        seen = ChoicesReader(1).see_all(body)
        _count(sample, seen.usage)
        if seen.error or not seen.finish_reason:
            self._fail(sample, "bad_answer", "the answer is no completion")
        return _text(body) if self._keeps_text else ""

    async def _stream(self, sample: Sample, response: Response, began_s: float) -> str:
        reader, blocks, texts = ChoicesReader(1), Blocks(), list[str]()
        finish = ""
        while data := await response.read():
            at_s = now_s() - began_s
            for block in blocks.feed(data):
                seen = reader.see(block)
                if seen.tokens:
                    self._chunk(sample, at_s)
                    if self._keeps_text:
                        texts.append(_text(block.data))
                finish = seen.finish_reason or finish
                _count(sample, seen.usage)
                if seen.error:
                    self._fail(sample, "stream_error", refusals.read(500, block.data).said)
                    return ""
        if finish == ABORTED:
            self._fail(sample, "aborted", "the server gave the answer up")
        elif not finish or not reader.whole:
            self._fail(sample, "cut_answer", "the stream ended without a finish_reason")
        return "".join(texts)

    def _chunk(self, sample: Sample, at_s: float) -> None:
        if sample.first_s is None:
            sample.first_s = at_s
        else:
            gap_s = at_s - (sample.last_s or at_s)
            self.gaps_s.append(gap_s)
            sample.longest_gap_s = max(sample.longest_gap_s, gap_s)
        sample.last_s = at_s
        sample.chunks += 1

    def _fail(self, sample: Sample, kind: str, said: str) -> None:
        """The first failure stays."""
        if not sample.failure:
            sample.failure, sample.said = kind, said[:MAX_SAID]


def _count(sample: Sample, usage: Usage | None) -> None:
    if usage is not None:
        sample.input_tokens, sample.output_tokens, sample.cached_tokens = usage[:3]


class _Delta(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    message: _Delta | None = None
    text: str | None = None


class _Answer(msgspec.Struct):
    choices: list[_Choice] = []


_decode = msgspec.json.Decoder(_Answer).decode


def _text(data: bytes) -> str:
    try:
        choices = _decode(data).choices
    except msgspec.DecodeError:
        return ""
    return "".join(
        (choice.delta and choice.delta.content) or (choice.message and choice.message.content) or choice.text or ""
        for choice in choices
    )
