"""Holds requests and answers to the rules of their tenant. What a rule has done is counted by its name; what it saw is kept nowhere."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import msgspec
import structlog

from inference.backends.credentials import CredentialError, Credentials
from inference.backends.port import Event, Stream
from inference.contract.address import parse_url
from inference.contract.snapshot import GuardRule
from inference.core.guard import texts
from inference.core.guard.checking import Checking, Note, Outcome, RefusedTextError, is_clean
from inference.core.guard.rules import Checks, Guard
from inference.core.openai import errors
from inference.core.openai.errors import ApiError, PermanentApiError
from inference.core.passing.texts import written
from inference.observability.spans import Trace
from inference.request.guard.stream import GuardedStream, whole_is_clean
from inference.request.parse import Endpoint, Request
from inference.wires.http.client import UNANSWERED, HttpClient, request_of
from inference.wires.resolver import Resolver

_log = structlog.get_logger()
_CONNECT_S = 1.0
_MAX_VERDICT_BYTES = 1 << 20


class Checked(NamedTuple):
    """A request as it may pass, what rules did, and the name of the one that refuses it."""

    request: Request
    outcomes: list[tuple[str, Outcome]]
    refused_by: str
    said: str  # for a moderation; empty where there is none


def hold(request: Request, endpoint: Endpoint, content_type: bytes, checks: Checks) -> Checked:
    """What takes no waiting. It may run in a thread."""
    outcomes: list[tuple[str, Outcome]] = []
    checking = Checking(checks, lambda rule, outcome: outcomes.append((rule, outcome)))
    passed = request.passed
    document = passed.document
    try:
        if texts.has_token_ids(document):
            checking.unreadable(checks)
        document = checking.document(document)
        if document is not passed.document:
            if endpoint.is_form:
                checking.unreadable(checks)  # its bytes are not made anew
            request = endpoint.parse(passed.path, written(document), content_type)
    except RefusedTextError as error:
        return Checked(request, outcomes, error.rule, "")
    return Checked(request, outcomes, "", "\n".join(texts.texts(document)) if checks.moderations else "")


def passes(request: Request, endpoint: Endpoint, checks: Checks) -> bool:
    """Whether it is sure at first sight that `hold` would change nothing and say nothing."""
    passed = request.passed
    return not endpoint.is_form and is_clean(passed.body, checks) and not texts.has_token_ids(passed.document)


class _Verdict(msgspec.Struct):
    flagged: bool


class _Verdicts(msgspec.Struct):
    results: list[_Verdict]


_verdicts = msgspec.json.Decoder(_Verdicts).decode


class Guards:
    """One for all requests of this process. `counts` is by rule and outcome."""

    def __init__(self, credentials: Credentials, *, link_local: bool = False) -> None:
        self.counts: Counter[tuple[str, Outcome]] = Counter()
        self._credentials = credentials
        self._client = HttpClient(Resolver(link_local=link_local), _CONNECT_S)

    def close(self) -> None:
        self._client.close()

    async def request(
        self,
        body: Request,
        checked: Checked | None,
        endpoint: Endpoint,
        content_type: bytes,
        checks: Checks,
        trace: Trace,
    ) -> Request:
        """The request as it may pass. `checked` is it where that was found out in a thread. Raises ApiError where a rule refuses it."""
        checked = checked or hold(body, endpoint, content_type, checks)
        note = self._noting(trace)
        for outcome in checked.outcomes:
            note(*outcome)
        if checked.refused_by:
            raise refused("request", checked.refused_by)
        for rule in checks.moderations:
            await self.moderate(rule, checked.said, "request", note)
        return checked.request

    def answers(self, guard: Guard, trace: Trace) -> "Answers | None":
        """What an answer goes through; None where no rule is about answers. `trace` is of the request that begins it."""
        return Answers(self, guard.answers, trace) if guard.mark else None

    def stream(self, stream: Stream, checks: Checks, trace: Trace) -> GuardedStream:
        """What looks through all that a stream of such a request brings."""
        note = self._noting(trace)
        moderations = [partial(self.moderate, rule, what="answer", note=note) for rule in checks.moderations]
        return GuardedStream(stream, Checking(checks, note), moderations, refused)

    async def moderate(self, rule: GuardRule, text: str, what: str, note: Note) -> None:
        """Raises ApiError where the moderation flags the text, or does not answer and the rule is closed."""
        try:
            async with asyncio.timeout(rule.timeout_ms / 1000):
                flagged = await self._flagged(rule, text)
        except (*UNANSWERED, CredentialError, TimeoutError, ValueError) as error:
            _log.warning("guard.moderation_failed", rule=rule.name, reason=type(error).__name__)
            note(rule.name, "failed_open" if rule.is_open else "failed_closed")
            if not rule.is_open:
                message = f"The moderation of rule {rule.name!r} does not answer, and nothing passes without it. Send it again in a moment."
                raise errors.unavailable(message, 1.0, "gateway") from None
            return
        if flagged:
            note(rule.name, "reported" if rule.action == "report" else "refused")
            if rule.action != "report":
                raise refused(what, rule.name)

    async def _flagged(self, rule: GuardRule, text: str) -> bool:
        url = parse_url(rule.url, link_local=True)  # it was checked, and its address is
        headers = {"Content-Type": "application/json"}
        if rule.credential:
            headers["Authorization"] = f"Bearer {self._credentials.read(rule.credential)}"
        request = request_of("POST", url, headers, written({"input": text}))
        status, _, body = await self._client.fetch(url, request, _MAX_VERDICT_BYTES)
        if status != 200:
            raise ValueError(f"status {status}")
        results = _verdicts(body).results
        if not results:
            raise ValueError("no result")
        return any(result.flagged for result in results)

    def _noting(self, trace: Trace) -> Note:
        def note(rule: str, outcome: Outcome) -> None:
            self.counts[rule, outcome] += 1
            trace.guarded = {**(trace.guarded or {}), f"{rule} {outcome}": None}

        return note


class Answers(NamedTuple):
    """What the answers to a request go through, those of each of its attempts by themselves."""

    guards: Guards
    checks: Checks
    trace: Trace

    def of(self, stream: Stream, events: Sequence[Event], choices: int) -> GuardedStream | None:
        """What looks through the events, which are the first of the stream, and all after them; None where all of the answer has come and
        it is sure at first sight that it may pass.
        """
        is_clean = whole_is_clean(stream.head, events, choices, self.checks)
        return None if is_clean else self.guards.stream(stream, self.checks, self.trace)


def refused(what: str, rule: str) -> ApiError:
    """`what` is the request or the answer."""
    message = f"The {what} has what rule {rule!r} of its tenant does not let through."
    reason = "guard" if what == "request" else ""
    return PermanentApiError(403, "invalid_request_error", "guard_refused", message, reason=reason, more={"rule": rule})
