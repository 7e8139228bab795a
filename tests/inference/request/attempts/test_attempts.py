"""Retries, hedges and fallbacks."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from inference.backends.fleet import PoolState
from inference.backends.port import CallInfo
from inference.contract.snapshot import Model, Route
from inference.core.backend_errors import (
    BackendError,
    BusyError,
    FailedError,
    InvalidError,
    LostCallError,
    RefusedError,
    UnreachableError,
    UnservedError,
)
from inference.core.capabilities import Handling
from inference.core.events import ABORTED, Event, Usage
from inference.core.openai.errors import ApiError
from inference.core.question import Message, Question
from inference.request.coalesce import Flight
from inference.request.generate import generate
from inference.request.route import for_pool
from tests.support.gateway.scripted import (
    DONE,
    ScriptedBackend,
    ScriptedStream,
    a_flight,
    a_pool,
    a_request,
    some_work,
    take_down,
)
from tests.support.wait import eventually_async

GOOD = (Event("ab"), DONE)
BUSY, FAILED, AWAY = (
    BusyError("full"),
    FailedError("it broke at /srv/x.py", "500"),
    UnreachableError("connection refused"),
)
LOST = LostCallError("connection lost")
HEDGED, MODEL = {"hedge_ms": 10}, Model("m", (Route("p"),))


def text(flight: Flight) -> str:
    assert flight.error is None
    return flight.answer().choices[0].text


def attempts(flight: Flight) -> list[tuple[str, str, bool]]:
    """Replica, `error.type` and whether another followed, of each attempt in the trace."""
    return [(mark.replica, mark.error, mark.retried) for mark in flight.marks if mark.replica]


def idle(*pools: PoolState) -> bool:
    return all(
        (replica.load.own, replica.load.pending, pool.in_flight, pool.retries.under_way) == (0, 0, 0, 0)
        for pool in pools
        for replica in pool.replicas
    )


@contextmanager
def first_preferred(pool: PoolState) -> Iterator[None]:
    """The other replicas of the pool seem loaded."""
    for replica in pool.replicas[1:]:
        replica.load.own += 50
    yield
    for replica in pool.replicas[1:]:
        replica.load.own -= 50


EVER = asyncio.Event().wait


@pytest.mark.parametrize(
    ("first", "error"),
    [
        *((error, error.error_type) for error in (BUSY, FAILED, LOST, AWAY, RefusedError("goes away"))),
        ((Event("x"), LOST), "unreachable"),
        ((Event("x", usage=Usage(1, 9)), Event("y"), FAILED), "500"),
        ((None,), "no_finish_reason"),
        ((Event("x"), None), "no_finish_reason"),
        *(((*before, EVER), "timeout") for before in ((), (Event("x"),))),
    ],
    ids="busy failed lost away goes-away token-lost usage-failed no-reason token-no-reason nothing silent".split(),  # noqa: SIM905
)
async def test_what_failed_before_the_client_had_anything_is_tried_elsewhere(first: Any, error: str) -> None:
    pool = a_pool(ScriptedBackend(first), ScriptedBackend(GOOD))
    flight = a_flight()
    with first_preferred(pool):
        await generate(some_work(pool, timeouts={"first_token_ms": 200, "next_token_ms": 200}), flight)
    assert text(flight) == "ab"
    assert (flight.output_tokens, flight.finish_reason) == (2, "stop")
    assert attempts(flight) == [("r0", error, True), ("r1", "", False)]
    assert idle(pool)


@pytest.mark.parametrize("error", [BUSY, FAILED, LOST, RefusedError("goes away")])
async def test_what_failed_after_the_client_had_a_token_is_not_tried_again(error: BackendError) -> None:
    backends = [ScriptedBackend((Event("a"), error)) for _ in range(2)]
    pool, flight = a_pool(*backends), a_flight()
    flight.given = True
    await generate(some_work(pool), flight)
    assert flight.error is not None
    assert flight.error.status == (502 if error is FAILED else 503)
    assert b"srv" not in flight.error.body()
    assert sum(len(backend.calls) for backend in backends) == 1
    assert all(stream.cancelled for backend in backends for stream in backend.streams)
    assert idle(pool)


async def test_the_time_in_which_a_connection_is_made_is_the_network_s() -> None:
    backend = ScriptedBackend(GOOD)
    generates = backend.generate

    async def connects_first(question: Question, call: CallInfo) -> ScriptedStream:
        assert call.connecting.within_s == 0.25
        call.connecting.done()
        return await generates(question, call)

    backend.generate = connects_first  # type: ignore[method-assign]
    flight = a_flight()
    await generate(some_work(a_pool(backend), timeouts={"connect_ms": 250}), flight)
    assert text(flight) == "ab"
    assert [(mark.stage.span, mark.stage.stage) for mark in flight.marks[-2:]] == [
        ("server.connect", "network"),
        ("model.infer", "model"),
    ]
    assert flight.marks[-1].first_token_ns


async def test_clients_that_do_not_read_use_up_none_of_the_model_s_time() -> None:
    """And its replica is not blamed."""
    long = Event("x" * (300 << 10))
    pool, flight = (
        a_pool(ScriptedBackend((long, lambda: asyncio.sleep(0), long, lambda: asyncio.sleep(0), DONE))),
        a_flight(),
    )
    flight.requests = flight.blocked = 1
    under_way = asyncio.ensure_future(generate(some_work(pool, timeouts={"model_ms": 150}), flight))
    await eventually_async(lambda: flight._resumed is not None)
    await asyncio.sleep(0.3)  # twice the time that the model has
    flight.unblock()
    await under_way
    assert flight.error is None
    assert pool.replicas[0].health.debt(time.monotonic()) == 0


async def test_an_answer_that_was_aborted_without_text_is_tried_elsewhere() -> None:
    pool, flight = a_pool(ScriptedBackend((Event(finish_reason=ABORTED, tokens=0),), GOOD)), a_flight()
    await generate(some_work(pool), flight)
    assert text(flight) == "ab"
    assert attempts(flight) == [("r0", "abort", True), ("r0", "", False)], "the only replica lives, so it is used again"


@pytest.mark.parametrize(
    ("error", "param"),
    [
        (InvalidError("`stop` is too long", param="stop"), "stop"),
        (UnservedError("HTTP 404: Not Found", "404"), "model"),
    ],
)
async def test_a_client_s_own_mistake_is_not_tried_again_and_blames_no_replica(error: InvalidError, param: str) -> None:
    backends = [ScriptedBackend(error) for _ in range(2)]
    pool = a_pool(*backends)
    for _ in range(10):
        flight = a_flight()
        await generate(some_work(pool), flight)
        assert flight.error is not None
        assert (flight.error.status, flight.error.param) == (400, param)
    assert sum(len(backend.calls) for backend in backends) == 10
    assert all(replica.health.debt(0) == 0 for replica in pool.replicas)


@pytest.mark.parametrize(("error", "ejected"), [(FAILED, True), (BUSY, False)])
async def test_a_server_that_fails_is_ejected_and_one_that_is_busy_is_not(error: BackendError, ejected: bool) -> None:
    pool = a_pool(ScriptedBackend(error))
    for _ in range(5):
        await generate(some_work(pool), a_flight())
    health, now_s = pool.replicas[0].health, time.monotonic()
    assert (health.state, health.ejected(now_s), health.debt(now_s) > 0) == ("up", ejected, ejected)


async def test_retries_stop_at_the_budget() -> None:
    """A pool where everything fails gets few more calls than requests."""
    first, again, begun = asyncio.Event(), asyncio.Event(), 0

    async def wait() -> None:
        nonlocal begun
        begun += 1
        await (first if begun <= 50 else again).wait()

    pool = a_pool(*(ScriptedBackend((wait, FAILED)) for _ in range(4)))
    flights = [a_flight() for _ in range(50)]
    under_way = [asyncio.ensure_future(generate(some_work(pool), flight)) for flight in flights]
    await eventually_async(lambda: begun == 50)
    first.set()
    await eventually_async(lambda: pool.retries.denied == 40)
    assert begun == 60, "a fifth of 50 is tried again at once"
    again.set()
    await asyncio.gather(*under_way)
    assert all(flight.error is not None and flight.error.status == 502 for flight in flights)
    assert idle(pool)


async def test_a_replica_that_leaves_gets_nothing_new() -> None:
    leaving = ScriptedBackend(GOOD)
    pool = a_pool(ScriptedBackend(LOST), leaving, ScriptedBackend(GOOD))
    pool.replicas[1].stop()
    for _ in range(3):
        flight = a_flight()
        await generate(some_work(pool), flight)
        assert text(flight) == "ab"
    assert not leaving.calls


async def test_a_slow_request_is_sent_to_a_second_replica_and_the_slower_one_is_cancelled() -> None:
    slow = [ScriptedBackend((asyncio.Event().wait,), GOOD), ScriptedBackend(GOOD)]
    pool, flight = a_pool(*slow), a_flight()
    with first_preferred(pool):
        await generate(some_work(pool, model=HEDGED, temperature=0.0), flight)
    assert text(flight) == "ab"
    assert attempts(flight) == [("r0", "overtaken", True), ("r1", "", False)]
    assert flight.replica == "r1"
    assert slow[0].streams[0].cancelled
    assert not slow[1].streams[0].cancelled
    assert pool.tally.hedges == 1
    assert idle(pool)


async def test_a_hedge_that_is_slower_or_fails_is_in_the_trace_beside_the_attempt() -> None:
    for second, error in (((asyncio.Event().wait,), "overtaken"), ((BUSY,), "unavailable")):
        gate = asyncio.Event()
        backends = [ScriptedBackend((gate.wait, *GOOD)), ScriptedBackend(second)]
        pool, flight = a_pool(*backends), a_flight()
        with first_preferred(pool):
            under_way = asyncio.ensure_future(generate(some_work(pool, model=HEDGED, temperature=0.0), flight))
            await eventually_async(lambda: bool(backends[1].streams))  # noqa: B023
            gate.set()
            await under_way
        assert text(flight) == "ab"
        assert attempts(flight) == [("r0", "", False)]
        shown, hedge = flight.marks[-1], flight.marks[-1].beside
        assert hedge is not None
        assert (hedge.replica, hedge.attempt, hedge.error, hedge.retried) == ("r1", 2, error, False)
        assert shown.start_ns < hedge.start_ns < hedge.end_ns <= shown.end_ns
        assert backends[1].streams[0].cancelled
        assert idle(pool)


async def test_a_request_that_left_ends_its_hedge_too() -> None:
    backends = [ScriptedBackend((asyncio.Event().wait,)) for _ in range(2)]
    pool, flight = a_pool(*backends), a_flight()
    under_way = asyncio.ensure_future(generate(some_work(pool, model=HEDGED, seed=4), flight))
    await eventually_async(lambda: all(backend.streams for backend in backends))
    under_way.cancel()
    with pytest.raises(asyncio.CancelledError):
        await under_way
    assert all(backend.streams[0].cancelled for backend in backends)
    hedge = flight.marks[-1].beside
    assert (flight.marks[-1].error, hedge and hedge.error) == ("cancelled", "cancelled")
    assert idle(pool)


async def test_fallback_pools_serve_in_their_order() -> None:
    first, empty, last = (
        a_pool(ScriptedBackend(FAILED), name="first"),
        a_pool(name="empty"),
        a_pool(ScriptedBackend(GOOD), name="last"),
    )
    flight = a_flight()
    await generate(some_work(first, empty, last), flight)
    assert text(flight) == "ab"
    assert flight.pool is last.pool
    assert (first.tally.fallbacks, empty.tally.fallbacks, last.tally.fallbacks) == (0, 0, 1)
    assert idle(first, last)


async def test_requests_that_a_new_snapshot_overtakes_go_on_counting() -> None:
    gate = asyncio.Event()
    slow = [ScriptedBackend((gate.wait, *GOOD)), ScriptedBackend((gate.wait, *GOOD))]
    first, last = a_pool(ScriptedBackend(FAILED), name="first"), a_pool(*slow, name="last")
    under_way = asyncio.ensure_future(generate(some_work(first, last, model=HEDGED, temperature=0.0), a_flight()))
    newer = PoolState(last.pool, 1.0, lambda _: None)
    newer.inherit(last)
    await eventually_async(lambda: all(backend.streams for backend in slow))
    gate.set()
    await under_way
    assert (newer.tally.fallbacks, newer.tally.hedges) == (1, 1)


async def test_without_a_fallback_that_can_the_first_pool_s_error_is_the_answer() -> None:
    first, second = a_pool(ScriptedBackend(BUSY), name="first"), a_pool(ScriptedBackend(FAILED), name="second")
    unable = ScriptedBackend(GOOD)
    unable.capabilities = unable.capabilities._replace(parameters={})
    flight = a_flight()
    await generate(some_work(first, second, a_pool(unable, name="unable")), flight)
    assert flight.error is not None
    assert (flight.error.status, flight.error.code) == (503, "service_unavailable")
    assert not unable.calls


def that_can(handling: Handling, name: str, server: str) -> ScriptedBackend:
    """A backend that handles this parameter so."""
    backend = ScriptedBackend(GOOD, server=server)
    parameters = {**backend.capabilities.parameters, name: handling}
    backend.capabilities = backend.capabilities._replace(parameters=parameters)
    return backend


async def test_a_fallback_answers_within_its_own_limit_and_says_what_it_drops() -> None:
    drops, model = that_can("dropped", "top_k", "other"), {"max_output_tokens": 60}
    first = a_pool(ScriptedBackend(FAILED), name="first", max_output_default=9)
    second = a_pool(drops, name="second", max_output_default=100)
    query = Question(operation="chat", messages=(Message("user", "Hello"),), top_k=3)
    question, dropped = for_pool(a_request(query), Model("m", (Route("first"),), **model), first)
    assert (question.max_tokens, dropped) == (9, [])
    work = some_work(first, second, model=model)._replace(question=question, request=a_request(query))
    flight = a_flight()
    await generate(work, flight)
    assert text(flight) == "ab"
    assert drops.questions[0] == msgspec.structs.replace(query, top_k=None, max_tokens=60)
    assert flight.dropped == ["top_k"]


async def test_a_fallback_that_fails_leaves_nothing_to_say() -> None:
    failing = that_can("dropped", "top_k", "other")
    failing._answers = (FAILED,)
    first, flight = a_pool(ScriptedBackend(BUSY), name="first"), a_flight()
    await generate(some_work(first, a_pool(failing, name="second"), top_k=3), flight)
    assert (len(failing.calls), flight.dropped) == (1, [])


def test_a_pool_of_several_kinds_of_servers_offers_what_all_of_them_can() -> None:
    """So that any of them may answer a retry or a hedge."""
    pool = a_pool(
        that_can("refused", "suffix", "A"), that_can("dropped", "top_k", "B"), that_can("translated", "top_k", "A")
    )
    given = pool.capabilities
    handled = [given.parameters[name] for name in ("suffix", "top_k", "stop")]
    assert (given.server, handled) == ("A or B", ["refused", "dropped", "forwarded"])
    with pytest.raises(ApiError, match="A or B"):
        for_pool(a_request(Question(operation="text_completion", prompt=("x",), suffix="y")), MODEL, pool)
    take_down(pool.replicas[0])
    assert pool.capabilities.parameters["suffix"] == "forwarded", "a server that is away decides nothing"


async def test_a_request_that_servers_fail_is_logged_once() -> None:
    for answers, served in (((FAILED, FAILED, FAILED), False), ((FAILED, FAILED, GOOD), True)):
        with capture_logs() as logs:
            await generate(some_work(a_pool(*map(ScriptedBackend, answers))), a_flight())
        [line] = [line for line in logs if line["event"] == "model.failed"]
        assert (line["answered"], line["pool"], line["reason"]) == (served, "p", str(FAILED))
        assert len(line["replicas"]) <= 3
    for error in (BUSY, AWAY, InvalidError("no")):
        with capture_logs() as logs:
            await generate(some_work(a_pool(ScriptedBackend(error))), a_flight())
        assert not [line for line in logs if line["event"] == "model.failed"]


async def test_no_fallback_answers_for_a_client_s_mistake_or_after_a_token() -> None:
    for answer in (InvalidError("no"), (Event("a"), LOST)):
        other, flight = ScriptedBackend(GOOD), a_flight()
        flight.given = not isinstance(answer, InvalidError)
        await generate(some_work(a_pool(ScriptedBackend(answer)), a_pool(other)), flight)
        assert flight.error is not None
        assert not other.calls


async def test_an_answer_without_end_is_ended() -> None:
    endless = ScriptedBackend([Event("x" * (1 << 20))] * 5)
    flight = a_flight()
    await generate(some_work(a_pool(endless)), flight)
    assert isinstance(flight.error, ApiError)
    assert flight.error.detail == "its answer is longer than 4194304 characters"
    assert "longer" not in flight.error.body().decode()
    assert endless.streams[0].cancelled
