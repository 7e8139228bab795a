"""Answers a request: with a stored answer, with a whole one, with a stream, or with an error."""

from inference.core.openai import errors, responses
from inference.core.openai.errors import ApiError
from inference.core.openai.responses import ChatWriter
from inference.core.snapshot import Model
from inference.observability.spans import RESPOND, Trace, now_ns
from inference.request.cache import StoredAnswer
from inference.request.coalesce import Flight
from inference.request.limits import Meter
from inference.wires.http.exchange import EVENT_STREAM, JSON, Exchange, Headers

_DEADLINE_MARGIN_S = 0.05  # so long before the client's deadline it is answered, so that it gets the reason


class Answer:
    """The answer to one request. `deadline` is the header with the client's read timeout; `keepalive_s` is how
    often a silent stream sends a comment.
    """

    __slots__ = ("_deadline_s", "_keepalive_s", "_out", "_trace", "identity", "meter")

    def __init__(self, trace: Trace, out: Exchange, deadline: bytes | None, keepalive_s: float) -> None:
        self.identity = trace.context.trace_id.hex()
        self.meter: Meter | None = None  # where the tenant has a limit
        self._trace = trace
        self._out = out
        self._deadline_s = _deadline_s(deadline)
        self._keepalive_s = keepalive_s

    def replay(self, writer: ChatWriter, answer: StoredAnswer) -> None:
        """Send an answer that the cache had."""
        trace, out = self._trace, self._out
        usage = (answer.prompt_tokens, answer.output_tokens)
        trace.http_status, trace.finish_reason = 200, answer.finish_reason
        trace.input_tokens, trace.output_tokens = usage
        if self.meter is not None:
            self.meter.charge(sum(usage))
        if trace.stream:
            out.start_stream(self._headers(EVENT_STREAM))
            out.end_stream(writer.first() + writer.text(answer.text) + writer.last(answer.finish_reason, *usage))
            trace.ttft_ns = now_ns() - trace.start_ns
        else:
            out.respond(200, self._headers(JSON), writer.whole(answer.text, answer.finish_reason, *usage))

    async def whole(self, writer: ChatWriter, flight: Flight) -> None:
        """Wait for the end of the flight, and send its answer. Raises ApiError."""
        while not flight.done:
            await self._changed(flight, None)
        self._landed(flight)
        if flight.error is not None:
            raise flight.error
        body = writer.whole("".join(flight.texts), flight.finish_reason, flight.prompt_tokens, flight.output_tokens)
        self._out.respond(200, self._headers(JSON), body)
        self._trace.http_status = 200

    async def stream(self, writer: ChatWriter, flight: Flight, egress_ms: int) -> None:
        """Send the flight's tokens as they come. Raises ApiError."""
        trace, out = self._trace, self._out
        sent = 0
        while True:
            done = flight.done  # read before the texts: none is added after it
            if done:
                self._landed(flight)
                if flight.error is not None and not out.started:
                    raise flight.error  # the error still gets a status of its own, so the client may try again
            texts = flight.texts[sent:] if sent else flight.texts
            data = b"".join(map(writer.text, texts)) if texts else b""
            if sent == 0 and (data or done):
                if not out.started:
                    self._begin()
                data = writer.first() + data
            sent += len(texts)
            if flight.error is not None:
                if data:
                    out.write(data)
                raise flight.error
            if done:
                data += writer.last(flight.finish_reason, flight.prompt_tokens, flight.output_tokens)
            if data:
                out.write(data)
                if trace.ttft_ns < 0:
                    trace.ttft_ns = now_ns() - trace.start_ns
            if out.blocked:
                await self._wait_for_reader(egress_ms)
            if done:
                break
            if not await self._changed(flight, self._keepalive_s):
                if not out.started:
                    self._begin()
                out.write(responses.COMMENT)
        out.end_stream()

    def refuse(self, error: ApiError) -> None:
        """Send an error: with its status, or as an event where a stream has begun."""
        trace, out = self._trace, self._out
        if trace.marks[-1].stage is not RESPOND:
            trace.enter(RESPOND)
        trace.status = "rejected" if error.status < 500 else "error"
        trace.http_status = error.status
        trace.error_type, trace.error_stage = error.code, error.stage
        trace.error_message = error.detail or error.message
        if not out.started:
            out.respond(error.status, [*self._headers(JSON), *error.headers()], error.body())
        elif error.stage == "egress":
            out.abort()  # the client does not read, so it would not read the error either
        else:
            out.write(responses.error_event(error.body()))
            out.end_stream()

    def close(self, flight: Flight, model: Model) -> None:
        """Charge and record what the flight used, however the request ended."""
        trace = self._trace
        if self.meter is not None:
            self.meter.charge(flight.used_tokens)
        trace.replica, trace.cold_start = flight.replica, flight.cold_start
        trace.input_tokens, trace.output_tokens = flight.prompt_tokens, flight.output_tokens
        if trace.outcome != "coalesced" and flight.prompt_tokens >= 0 and flight.texts:
            prompt_usd = flight.prompt_tokens * model.usd_per_1k_prompt_tokens
            trace.cost_usd = (prompt_usd + flight.output_tokens * model.usd_per_1k_output_tokens) / 1000

    def _begin(self) -> None:
        """Send the status with the first token, not before: until then a failure can still have a status of its own."""
        self._out.start_stream(self._headers(EVENT_STREAM))
        self._trace.http_status = 200

    def _landed(self, flight: Flight) -> None:
        self._trace.leave(flight.end_ns)
        self._trace.finish_reason = flight.finish_reason

    async def _wait_for_reader(self, egress_ms: int) -> None:
        try:
            await self._out.drained(egress_ms / 1000)
        except TimeoutError:
            raise errors.stage_timeout("egress", egress_ms) from None

    async def _changed(self, flight: Flight, at_most_s: float | None) -> bool:
        """Wait for the flight; False when `at_most_s` passed first. Raises ApiError when the client's own deadline
        has passed.
        """
        trace = self._trace
        left_s = 3600.0
        if self._deadline_s and trace.ttft_ns < 0:
            left_s = self._deadline_s - _DEADLINE_MARGIN_S - (now_ns() - trace.start_ns) / 1e9
            if left_s <= 0:
                raise errors.deadline_missed(trace.current_stage(), self._deadline_s)
        if at_most_s is None or left_s < at_most_s:
            await flight.changed(left_s)
            changed = True
        else:
            changed = await flight.changed(at_most_s)
        if self.meter is not None:
            self.meter.charge(flight.used_tokens)
        return changed

    def _headers(self, content_type: tuple[bytes, bytes]) -> Headers:
        headers = [
            content_type,
            (b"x-request-id", self.identity.encode()),
            (b"x-weir-cache", self._trace.outcome.encode()),
        ]
        if self.meter is not None:
            headers += self.meter.headers()
        return headers


def _deadline_s(header: bytes | None) -> float:
    """The client's read timeout in seconds; 0 where it has none."""
    try:
        deadline_s = float(header) if header else 0.0
    except ValueError:
        return 0.0
    return deadline_s if 0 < deadline_s < 86_400 else 0.0
