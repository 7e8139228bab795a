"""Waits for something that other processes bring about."""

import time
from collections.abc import Callable

WITHIN_S = 60.0


def becomes(holds: Callable[[], bool], within_s: float = WITHIN_S) -> bool:
    """Whether `holds()` is true at some time within `within_s`; returns as soon as it is."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.1)
    return False


def eventually(holds: Callable[[], bool], within_s: float = WITHIN_S) -> None:
    """Returns once `holds()` is true. Fails the test when it is not within `within_s`."""
    assert becomes(holds, within_s), f"it did not come about within {within_s:g} s"
