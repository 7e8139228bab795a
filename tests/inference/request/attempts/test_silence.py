"""How long a server may send nothing in the middle of an answer."""

import asyncio
import time
from functools import partial

import pytest

from inference.backends.silence import Silence
from inference.backends.triton.fan_out import FanOut
from inference.core.backend_errors import SlowError
from inference.core.events import Event
from inference.request.generate import generate
from tests.support.gateway.scripted import DONE, ScriptedBackend, ScriptedStream, a_flight, a_pool, some_work

EVER = asyncio.Event().wait


async def test_only_the_time_for_which_the_server_is_awaited_is_silence() -> None:
    stream = ScriptedStream((), 1)  # as while a moderation looks at what came, or a client does not read
    with Silence(asyncio.get_running_loop(), stream, 1):
        await asyncio.sleep(0.02)
    with pytest.raises(SlowError, match="nothing for 1 ms"), Silence(asyncio.get_running_loop(), stream, 1):
        stream.awaited_since_s = time.monotonic()
        await EVER()


async def test_choices_that_all_wait_for_the_server_are_silence() -> None:
    choices = FanOut([ScriptedStream((EVER,), 1) for _ in range(2)])
    with pytest.raises(SlowError), Silence(asyncio.get_running_loop(), choices, 20):
        await choices.next()
    choices.cancel()


async def test_a_server_that_falls_silent_ends_the_answer_of_a_client_that_has_a_part_of_it() -> None:
    backend = ScriptedBackend((Event("a"), EVER))
    pool, flight = a_pool(backend), a_flight()
    flight.given = True
    await generate(some_work(pool, timeouts={"next_token_ms": 50}), flight)
    assert flight.error is not None
    assert (flight.error.status, flight.error.code, flight.error.stage) == (504, "stage_timeout", "model")
    assert b"50 ms" in flight.error.body()
    assert backend.streams[0].cancelled
    assert not pool.in_flight


async def test_a_line_that_nobody_waits_for_may_be_put_off_in_the_middle_of_its_answer() -> None:
    backend = ScriptedBackend((Event("a"), partial(asyncio.sleep, 0.05), Event("b"), DONE))
    pool, flight = a_pool(backend), a_flight()
    work = some_work(pool, timeouts={"next_token_ms": 1})
    await generate(work._replace(can_wait=True), flight)
    assert flight.error is None and flight.answer().choices[0].text == "ab"
    person = a_flight()
    await generate(work, person)
    assert person.error is not None, "who waits is told"
