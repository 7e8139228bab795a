"""When another process reported something, where its clock may be ahead of this one."""

import time
from datetime import datetime, timedelta

_SEEN: dict[str, tuple[datetime, float]] = {}
"""Reports from the future by whose they are, and since when this process has seen them (monotonic)."""


def reported_at(whose: str, at: datetime, now: datetime) -> datetime:
    """`at`. Of a report from the future, when this process first saw it: one that is not renewed grows old like any other."""
    if at <= now:
        return at
    seen, since_s = _SEEN.get(whose, (None, 0.0))
    if seen != at:
        since_s = time.monotonic()
        _SEEN[whose] = at, since_s
    return now - timedelta(seconds=time.monotonic() - since_s)
