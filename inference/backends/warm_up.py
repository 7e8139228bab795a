"""Sends warm-up requests to new replicas: the first answers of a server may take seconds, for caches that it fills, kernels
that it compiles and memory that it takes.

They are no users' requests: each has a span that says so, and neither limits, cache, retries nor the speed that is learnt of a
replica know of them.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

import structlog

from inference.backends.port import Backend, CallInfo, Query
from inference.backends.replica import Replica
from inference.contract.snapshot import WarmUp
from inference.core.backend_errors import BackendError, FailedError, InvalidError, RefusedError, UnreachableError
from inference.core.events import ABORTED
from inference.core.question import Question
from inference.core.routing.warming import Warming
from inference.core.warm_up_forms import forms
from inference.observability.spans import OwnCall, now_ns
from inference.tasks import keep

_log = structlog.get_logger()
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.1, 2.0
_NO_SUCH_ROUTE = ("404", "405", "501")
_PRIORITY = 2  # after users' requests of the first priority

Record = Callable[[OwnCall], None]
"""Gets each call once it has ended."""


def forget(_: OwnCall) -> None:
    """Where spans go nowhere."""


class WarmUps:
    """The warm-ups of a pool's replicas. `answered` and `failed` count their requests since the start, `warmed` the replicas
    that were warmed up, and `given_up` those that get users' requests although they were not.
    """

    def __init__(self, replicas: Sequence[Replica], record: Record = forget) -> None:
        self.answered = self.failed = self.warmed = self.given_up = 0
        self.warm_up = WarmUp()
        self._replicas, self._record = replicas, record
        self._tasks: dict[Replica, asyncio.Task[None]] = {}

    def obey(self, warm_up: WarmUp, replicas: Sequence[Replica]) -> None:
        """A new snapshot is in force. What is under way goes on, unless no warm-up is wanted any more."""
        self.warm_up, self._replicas = warm_up, replicas
        for replica in replicas:
            if replica.health.state == "unknown":
                self._cool(replica)
            elif replica.warming.missing and not warm_up.requests:
                replica.warming.give_up("")

    def came_up(self, replica: Replica, away_s: float) -> None:
        """The replica is ready, and was not for so long."""
        warming = replica.warming
        if away_s > Warming.AWAY_S:
            self._cool(replica)
        if not warming.missing:
            return
        warming.came_up(time.monotonic(), self.warm_up.within_s)
        before = self._tasks.get(replica)
        if before is None or before.done():
            name, warm_up = f"warm-up {replica.pool}/{replica.name}", self.warm_up
            self._tasks[replica] = keep(name, lambda: self._send_missing(replica, warm_up))

    def stop(self, replica: Replica) -> None:
        """It is no replica of the pool any more."""
        if (task := self._tasks.pop(replica, None)) is not None:
            task.cancel()

    def _cool(self, replica: Replica) -> None:
        """It is new, or was away for long. It waits only where another replica is warm."""
        others = (it for it in self._replicas if it is not replica and it.health.state == "up" and not it.leaving)
        replica.warming.begin(self.warm_up.requests, kept_back=any(not it.warming.missing for it in others))

    async def _send_missing(self, replica: Replica, warm_up: WarmUp) -> None:
        """Send requests, one after the other, until all that are missing have been answered or their time is over. Returns
        earlier once the replica is not up any more: what is missing then is sent when it has come up again.
        """
        warming, questions = replica.warming, _forms(replica.backend, warm_up)
        form, refused, pause_s, reason = 0, 0, _FIRST_PAUSE_S, ""
        while warming.missing and replica.health.state == "up":
            left_s = warming.until_s - time.monotonic()
            if left_s <= 0 or refused == len(questions):
                self._give_up(replica, reason)
                return
            began_s = time.monotonic()
            try:
                async with asyncio.timeout(left_s):
                    await self._send(replica, questions[form], warm_up, left_s)
            except TimeoutError:
                reason = "a request was not answered in time"
            except RefusedError as error:
                reason = error.message
            except UnreachableError as error:
                replica.unreached(began_s, error.message)
            except BackendError as error:
                reason = reason if refused else error.message  # of the likeliest form
                if isinstance(error, InvalidError) or error.error_type in _NO_SUCH_ROUTE:
                    form, refused, self.failed = (form + 1) % len(questions), refused + 1, self.failed + 1
                    continue
            else:
                refused, pause_s = 0, _FIRST_PAUSE_S
                self._answered(replica)
                continue
            self.failed += 1
            await asyncio.sleep(min(pause_s, max(0.0, warming.until_s - time.monotonic())))
            pause_s = min(_MAX_PAUSE_S, 2 * pause_s)

    async def _send(self, replica: Replica, query: Query, warm_up: WarmUp, within_s: float) -> None:
        """One request, and the whole of its answer. Raises BackendError."""
        call = OwnCall(replica.pool, replica.name)
        try:
            await _send(replica.backend, query, warm_up, within_s, call)
        except BackendError as error:
            error.quote()  # the prompt is the owner's
            raise
        finally:
            call.end_ns = now_ns()
            self._record(call)

    def _answered(self, replica: Replica) -> None:
        warming = replica.warming
        self.answered += 1
        replica.served += 1
        if warming.missing and warming.request_answered():
            self.warmed += 1
            _log.info(
                "replica.warmed_up",
                pool=replica.pool,
                replica=replica.name,
                requests=warming.answered,
                took_s=_since(warming),
            )
            replica.changed()

    def _give_up(self, replica: Replica, reason: str) -> None:
        warming = replica.warming
        self.given_up += 1
        _log.warning(
            "replica.warm_up_given_up",
            pool=replica.pool,
            replica=replica.name,
            answered=warming.answered,
            missing=warming.missing,
            after_s=_since(warming),
            reason=reason,
            effect="it gets users' requests all the same",
        )
        warming.give_up(reason)
        replica.changed()


def _forms(backend: Backend, warm_up: WarmUp) -> Sequence[Query]:
    """The forms of the request that its model may be for."""
    operations = backend.capabilities.operations
    return [form for form in forms(warm_up, passes=backend.passes) if form.operation in operations]


def _since(warming: Warming) -> float:
    return round(time.monotonic() - warming.began_s, 3)


async def _send(backend: Backend, query: Query, warm_up: WarmUp, within_s: float, own: OwnCall) -> None:
    call = CallInfo(
        max(1, len(warm_up.prompt) // 4),
        warm_up.max_tokens,
        _PRIORITY,
        own.traceparent,
        own.trace_id.hex(),
        asyncio.get_running_loop().time() + within_s,
        warm_up.prompt,
    )
    if isinstance(query, Question) and query.operation == "embeddings":
        await backend.embed(query, call)
        return
    stream = await backend.generate(query, call)
    ended = counted = False
    try:
        while backend.passes and await stream.next():
            pass  # it fails where that is no whole answer
        while not backend.passes and not (ended and counted) and (events := await stream.next()):
            for event in events:
                if event.finish_reason == ABORTED:
                    raise RefusedError("the server ended the request before its answer was complete", ABORTED)
                ended |= bool(event.finish_reason)
                counted |= event.usage is not None
        if not (ended or backend.passes):
            raise FailedError("it ended its answer without saying why", "no_finish_reason")
    except BaseException:
        stream.cancel()
        raise
