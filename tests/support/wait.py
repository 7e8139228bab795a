"""Waits for something that other processes bring about."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator

WITHIN_S = 300.0
"""Nothing takes as long, however busy the machine is with other tests. A test of the time itself gives its own."""
MIN_PAUSE_S, MAX_PAUSE_S = 0.01, 0.05

What = str | Callable[[], object]
"""What is waited for, for the message of a test that fails; or a function that says why it may not have come."""


def eventually(holds: Callable[[], bool], what: What = "", within_s: float = WITHIN_S) -> None:
    """Returns once `holds()` is true. Fails the test where it is not within `within_s`."""
    for pause_s in _pauses(holds, what, within_s):
        if holds():
            return
        time.sleep(pause_s)


async def eventually_async(
    holds: Callable[[], bool | Awaitable[bool]], what: What = "", within_s: float = WITHIN_S
) -> None:
    """`eventually`, for a test that has work of its own on the event loop."""
    for pause_s in _pauses(holds, what, within_s):
        answer = holds()
        if answer if isinstance(answer, bool) else await answer:
            return
        await asyncio.sleep(pause_s)


def _pauses(holds: object, what: What, within_s: float) -> Iterator[float]:
    """How long to wait before each next look. Fails after the look that follows the end of `within_s`."""
    until, pause_s, is_last = time.monotonic() + within_s, MIN_PAUSE_S, False
    while not is_last:
        is_last = time.monotonic() >= until
        yield pause_s
        pause_s = min(pause_s * 1.5, MAX_PAUSE_S)
    raise AssertionError(f"not within {within_s:g} s: {(what() if callable(what) else what) or holds}")
