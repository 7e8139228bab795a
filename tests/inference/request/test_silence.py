"""How long a server may send nothing in the middle of an answer."""

import asyncio
import time

import pytest

from inference.backends.triton.fan_out import FanOut
from inference.core.backend_errors import SlowError
from inference.request.silence import Silence
from tests.support.gateway.scripted import ScriptedStream

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
