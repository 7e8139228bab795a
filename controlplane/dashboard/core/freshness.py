"""How old the data on a page is, as icon, word and colour. Stale data is never green."""

from typing import NamedTuple

FRESH_S = 30.0
STALE_S = 300.0
"""Traffic may pause for half a minute; after five, a reader must not take the page for the present."""


class Freshness(NamedTuple):
    state: str  # "fresh", "ageing", "stale", "fixed", "none": a CSS class
    icon: str
    word: str
    age_s: float | None


def freshness(newest_ns: int | None, now_ns: int, *, live: bool) -> Freshness:
    """Of a page whose newest request ended at `newest_ns`. A fixed range in the past is neither fresh nor stale."""
    if not live:
        return Freshness("fixed", "◼", "fixed range", None)
    if newest_ns is None:
        return Freshness("none", "○", "no data", None)
    age_s = max(0.0, (now_ns - newest_ns) / 1e9)
    if age_s < FRESH_S:
        return Freshness("fresh", "●", "live", age_s)
    if age_s < STALE_S:
        return Freshness("ageing", "◐", "nothing new", age_s)
    return Freshness("stale", "▲", "stale", age_s)
