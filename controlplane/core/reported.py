"""How old what another process wrote is, where its clock may be ahead of this one."""

import time
from datetime import datetime, timedelta

_SEEN: dict[str, tuple[object, float]] = {}
"""What this process saw last, by whose it is, and since when (monotonic)."""


def unchanged_s(whose: str, value: object) -> float:
    """For how long this process has seen the same value, s."""
    now_s = time.monotonic()
    before, since_s = _SEEN.get(whose, (None, now_s))
    if before != value:
        since_s = now_s
    _SEEN[whose] = value, since_s
    return now_s - since_s


def reported_at(whose: str, at: datetime, now: datetime) -> datetime:
    """`at`. Of a report from the future, when this process first saw it: one that is not renewed grows old like any other."""
    return at if at <= now else now - timedelta(seconds=unchanged_s(whose, at))
