"""Answers a request: with a stored answer, with a whole one, with a stream, or with an error."""

import time
from collections.abc import Callable, Iterable
from typing import Any, cast
from urllib.parse import quote

from inference.backends.fleet import PoolState
from inference.contract.lane import ROOM_HEADER
from inference.contract.metering.cost import Used, cost_usd, most_usd, price_now
from inference.contract.metering.text_audit import TextAudit
from inference.contract.plan import Plan, Step
from inference.contract.snapshot import Model, Pool
from inference.core.events import UNCOUNTED, Usage, WholeAnswer
from inference.core.openai import errors
from inference.core.openai.errors import ApiError
from inference.core.openai.writers import COMMENT, Writer
from inference.core.passing.writer import PassWriter, error_body
from inference.observability.context import span_id
from inference.observability.spans import RESPOND, Trace, now_ns
from inference.request.coalesce import Flight
from inference.request.limits import Meter
from inference.request.parse import Request
from inference.snapshot.serving import Caller
from inference.wires.http.exchange import EVENT_STREAM, JSON, Exchange, Headers

_WAITS = frozenset((b"retry-after", b"retry-after-ms"))
_NO_STREAM = "Its server answered at once, when the stream that was asked for had begun: ask for none."
_DEADLINE_MARGIN_S = 0.05  # so long before the client's deadline it is answered, so that it gets the reason


class AuditedExchange:
    """`out`, of which each byte of an answer's body is hashed. Requests without an audit have none in between."""

    def __init__(self, out: Exchange, audit: TextAudit) -> None:
        self._out, self._audit = out, audit

    def respond(self, status: int, headers: Headers, body: bytes) -> None:
        if status < 400:
            self._audit.answered(body)
        self._out.respond(status, headers, body)

    def write(self, data: bytes) -> None:
        self._audit.answered(data)
        self._out.write(data)

    def end_stream(self, data: bytes = b"") -> None:
        if data:
            self._audit.answered(data)
        self._out.end_stream(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._out, name)


class Answer:
    """The answer to one request at `path`. `deadline` is the header with the client's read timeout; `keepalive_s` is how
    often a silent stream sends a comment.
    """

    __slots__ = (
        "_cut",
        "_deadline_rule",
        "_deadline_s",
        "_keepalive_s",
        "_model",
        "_out",
        "_path",
        "_policy",
        "_request",
        "_trace",
        "_writers",
        "about_cache",
        "caller",
        "dropped",
        "identity",
        "meter",
        "room",
    )

    def __init__(self, trace: Trace, out: Exchange, path: str, deadline: bytes | None, keepalive_s: float) -> None:
        self.identity = trace.context.trace_id.hex()
        self.caller: Caller | None = None  # once it is known
        self.meter: Meter | None = None  # where the tenant has a limit
        self.room: Callable[[], int] | None = None  # of the pool, where a worker of the lane wants to know
        self._request: Request | None = None  # once its model is found
        self._model: Model | None = None
        self._writers: dict[bool, Writer] = {}
        self._cut: tuple[Step, bool] | None = None
        self.dropped: list[str] = []  # parameters without effect here
        self._trace = trace
        self._out, self._path = out, path
        self._deadline_s = _deadline_s(deadline)
        self._deadline_rule = ""  # whose deadline it is; the client's own if empty
        self._keepalive_s = keepalive_s
        self.about_cache = b""  # what a similar request's answer is known by, or how many inputs the cache had
        self._policy: Headers = []  # headers that say what policies have done

    def follow(self, plan: Plan) -> None:
        """Say which rule the request follows, and keep its deadline if it is before the client's."""
        self._policy += plan.headers
        if plan.deadline_s and (not self._deadline_s or plan.deadline_s < self._deadline_s):
            self._deadline_s, self._deadline_rule = plan.deadline_s, plan.rule

    def degraded_by(self, step: Step, state: PoolState) -> None:
        """Say which step of a ladder has changed or refused the request, and how a cut answer goes on."""
        self._trace.degraded = step.name
        self._policy.append(step.header)
        if step.partial:
            refused = state.capabilities.parameters.get("continue_final_message", "refused") == "refused"
            self._cut = (step, not refused)

    def audited_by(self, audit: TextAudit) -> None:
        self._trace.audit = audit
        self._out = cast(Exchange, AuditedExchange(self._out, audit))

    def of(self, request: Request, model: Model) -> None:
        """It answers this request."""
        self._request, self._model = request, model

    def _writer(self, passes: bool) -> Writer:
        """Who writes it, where the server's answer is handed on or not. Raises ApiError."""
        writer = self._writers.get(passes)
        if writer is None:
            assert self._request is not None
            assert self._model is not None
            if passes:
                writer = PassWriter(self._request.passed.path)
            else:
                # An id of its own, and not the span's: a client that knows that could put its next requests beneath this one.
                name = self.identity + span_id().hex()
                writer = self._request.understood.writer(name, int(time.time()), self._model)
            if self._cut is not None:
                writer.cut_at(*self._cut)
            self._writers[passes] = writer
        return writer

    def replay(self, answer: WholeAnswer, pool: Pool, key: bytes) -> None:
        """Send an answer of the pool that the cache had under `key`. It costs nothing where it would have a price."""
        trace, out, handed = self._trace, self._out, answer.handed
        trace.cost_usd = None if price_now(pool) is None else 0.0
        trace.http_status, trace.finish_reason = 200, answer.choices[0].finish_reason if answer.choices else ""
        if key:
            self._policy.append((b"x-weir-cache-key", key.hex().encode()))
        if answer.made_s:
            self._policy.append((b"age", b"%d" % max(0, time.time() - answer.made_s)))
        writer = self._writer(handed is not None)
        if handed is not None:
            trace.finish_reason = handed.finish_reason
        trace.input_tokens, trace.output_tokens = answer.prompt_tokens, answer.output_tokens
        if self.meter is not None:
            self.meter.charge(answer.prompt_tokens + max(0, answer.output_tokens))
        if trace.stream:
            out.start_stream(self._headers((EVENT_STREAM,) if handed is None else handed.headers))
            out.end_stream(writer.replay(answer))
            trace.ttft_ns = now_ns() - trace.start_ns
        elif handed is not None:
            out.respond(200, self._headers(handed.headers), handed.body)
        else:
            out.respond(200, self._headers((JSON,)), writer.whole(answer))

    async def whole(self, flight: Flight) -> None:
        """Wait for the end of the flight, and send its answer. Raises ApiError."""
        while not flight.done:
            await self._changed(flight, None, only_end=self.meter is None)
        self._landed(flight)
        if flight.error is not None:
            raise flight.error
        self._respond(flight)

    def _respond(self, flight: Flight) -> None:
        """Send the answer of a flight that has landed."""
        head = flight.head
        headers = self._headers((JSON,) if head is None else head.headers, flight)
        self._out.respond(flight.status, headers, self._writer(head is not None).whole(flight.answer()))
        self._trace.http_status = flight.status

    async def stream(self, flight: Flight, egress_ms: int) -> None:
        """Send the flight's events as they come; where the server gives no stream, its answer. Raises ApiError."""
        trace, out = self._trace, self._out
        writer: Writer | None = None
        sent = 0
        while True:
            done = flight.done  # read before the events: none is added after it
            if done:
                self._landed(flight)
                begun = out.started or flight.says_its_error
                if flight.error is not None and not (begun and (sent or flight.events)):
                    raise flight.error  # the error still gets a status of its own, so the client may try again
            head = flight.head
            if done and flight.error is None and head is not None and not head.streams:
                if out.started:  # with comments, in which the answer would be lost
                    raise errors.model_failed("its answer did not come as a stream", _NO_STREAM)
                self._respond(flight)
                return
            events = flight.events[sent:] if sent else flight.events
            data = b""
            if writer is None and (events or done):
                if not out.started:
                    self._begin(flight)
                writer = self._writer(head is not None)
                data = writer.first(flight.prompt_tokens)
            if events and writer is not None:
                flight.given = True
                data += b"".join(map(writer.event, events))
                sent += len(events)
            if flight.error is not None:
                if data:
                    out.write(data)
                raise flight.error
            if done and writer is not None:
                data += writer.end(flight.answer())
            if data:
                out.write(data)
                if trace.ttft_ns < 0:
                    trace.ttft_ns = now_ns() - trace.start_ns
            if out.blocked:
                await self._wait_for_reader(flight, egress_ms)
                if not done:
                    continue  # more may have come meanwhile, or the end, for which nothing would wake this again
            if done:
                break
            if not await self._changed(flight, self._keepalive_s):
                if not out.started:
                    self._begin(flight)
                out.write(COMMENT)
        out.end_stream()

    def refuse(self, error: ApiError) -> None:
        """Send an error: with its status, or as an event where a stream has begun."""
        trace, out = self._trace, self._out
        if trace.marks[-1].stage is not RESPOND:
            trace.enter(RESPOND)
        trace.status = "rejected" if error.is_clients else "error"
        said = error.answer
        trace.http_status = error.status
        if said is not None and said.status and (said.status < 500) is (error.status < 500) and not out.started:
            trace.http_status = said.status  # what the client gets, unless it would shift the blame
        trace.error_type, trace.error_stage = error.code, error.stage
        trace.error_message = error.detail or error.message
        trace.shed_reason = error.reason
        if error.prompt_tokens >= 0:
            trace.input_tokens, trace.tokens_source = error.prompt_tokens, "at_least"
        if said is not None and not said.status and out.started:
            out.end_stream()  # the client has it already
        elif said is not None and said.status and not out.started:
            names = {name for name, _ in said.headers}
            if names & _WAITS:
                names |= _WAITS  # clients would heed the second
            more = [header for header in error.headers() if header[0] not in names]
            out.respond(said.status, [*self._headers(said.headers), *more], said.body)
        elif not out.started:
            out.respond(error.status, [*self._headers((JSON,)), *error.headers()], error_body(self._path, error))
        elif error.stage == "egress":
            out.abort()  # the client does not read, so it would not read the error either
        else:
            writer = next(iter(self._writers.values()), None) or PassWriter(self._path)
            if said is None:  # else the client had only comments so far
                event = b""
            elif any(b"event-stream" in value for _, value in said.headers):
                event = said.body
            else:
                event = PassWriter(self._path).server_error(said.body)
            out.write(event or writer.error(error))
            out.end_stream()

    def close(self, flight: Flight, images: int) -> None:
        """Charge and record what the flight used, however the request ended."""
        trace, used_tokens = self._trace, flight.used_tokens
        if self.meter is not None:
            if flight.uncounted:
                used_tokens = max(used_tokens, self.meter.expected)
            self.meter.charge(used_tokens)
        trace.replica, trace.cold_start = flight.replica, flight.cold_start
        if flight.pool is not None:  # another one than was chosen first, if that could not serve
            trace.show(flight.pool)
        if flight.prompt_tokens >= 0:
            trace.input_tokens, trace.tokens_source = flight.prompt_tokens, flight.tokens_source
        trace.output_tokens = UNCOUNTED if flight.uncounted else flight.output_tokens
        usage = flight.usage or Usage()
        trace.cached_tokens = usage.cached_tokens
        if flight.pool is not None and (flight.events or flight.vectors):
            used = Used(flight.prompt_tokens, flight.output_tokens, usage.cached_tokens, usage.audio_tokens, images)
            price = price_now(flight.pool)
            nothing = price is not None and trace.outcome == "coalesced"
            trace.cost_usd = 0.0 if nothing else cost_usd(price, used)
        if self.meter is not None and self.meter.counts_money and flight.pool is not None and used_tokens:
            tokens = used_tokens if flight.prompt_tokens >= 0 else self.meter.expected
            most = 0.0 if trace.outcome == "coalesced" else most_usd(price_now(flight.pool), tokens)
            self.meter.pay(trace.cost_usd, most)

    def _begin(self, flight: Flight) -> None:
        """Send the status with the first token, not before: until then a failure can still have a status of its own."""
        head = flight.head
        self._out.start_stream(self._headers((EVENT_STREAM,) if head is None else head.headers, flight), flight.status)
        self._trace.http_status = flight.status

    def _landed(self, flight: Flight) -> None:
        trace = self._trace
        trace.leave(flight.end_ns)
        trace.finish_reason = flight.finish_reason
        if flight.inputs is not None and trace.outcome == "miss":
            trace.outcome = "partial"
            self.of_inputs(flight.inputs)

    def of_inputs(self, inputs: tuple[int, int]) -> None:
        """Say how many of a list's inputs the cache had, and of how many."""
        self._trace.inputs = inputs
        self.about_cache = b"; hits=%d; of=%d" % inputs

    async def _wait_for_reader(self, flight: Flight, egress_ms: int) -> None:
        flight.blocked += 1
        try:
            await self._out.drained(egress_ms / 1000)
        except TimeoutError:
            raise errors.stage_timeout("egress", egress_ms) from None
        finally:
            flight.unblock()

    async def _changed(self, flight: Flight, at_most_s: float | None, *, only_end: bool = False) -> bool:
        """Wait for the flight; False when `at_most_s` passed first. Raises ApiError when the client's own deadline
        has passed.
        """
        trace = self._trace
        left_s: float | None = None
        if self._deadline_s and trace.ttft_ns < 0:
            left_s = self._deadline_s - _DEADLINE_MARGIN_S - (now_ns() - trace.start_ns) / 1e9
            if left_s <= 0:
                raise errors.deadline_missed(trace.current_stage(), self._deadline_s, self._deadline_rule)
        if at_most_s is None or (left_s is not None and left_s < at_most_s):
            await flight.changed(left_s, only_end=only_end)
            changed = True
        else:
            changed = await flight.changed(at_most_s)
        if self.meter is not None:
            self.meter.charge(flight.used_tokens)
        return changed

    def _headers(self, first: Iterable[tuple[bytes, bytes]], flight: Flight | None = None) -> Headers:
        headers = [
            *first,
            (b"x-request-id", self.identity.encode()),
            (b"x-weir-cache", self._trace.outcome.encode() + self.about_cache),
        ]
        dropped = self.dropped if flight is None or not flight.dropped else dict.fromkeys(self.dropped + flight.dropped)
        if dropped:
            headers.append((b"x-weir-dropped", ", ".join(map(_in_header, dropped)).encode()))
        if self._policy:
            headers += self._policy
        if self.meter is not None:
            headers += self.meter.headers()
        if self.room is not None:
            headers.append((ROOM_HEADER.encode(), b"%d" % self.room()))
        return headers


def _in_header(name: str) -> str:
    """A parameter's name, which may be whatever a client has sent, as a header can carry it."""
    return quote(name[:100], safe="[]", errors="replace")


def _deadline_s(header: bytes | None) -> float:
    """The client's read timeout in seconds; 0 where it has none."""
    try:
        deadline_s = float(header) if header else 0.0
    except ValueError:
        return 0.0
    return deadline_s if 0 < deadline_s < 86_400 else 0.0
