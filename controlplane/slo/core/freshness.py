"""Decides from what was observed whether the last minutes of the ledger can be trusted."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.core.formatting import TEXT

MAX_BEHIND_S = 45.0
"""What telemetry has and has not worked off yet delays a judgement. It is no reason to stop judging, until it is older than this, s."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """What was observed on the way of requests into the ledger."""

    newest_s: float | None  # since the newest request in the ledger ended
    telemetry: str  # "up", "degraded", "down", "stale", "unknown": as the worker saw it
    gateway: str
    gateway_per_s: float | None  # requests that the gateway itself counts
    behind_s: float | None  # how far telemetry is behind, by its own account
    telemetry_error: str = ""  # what telemetry says is wrong with it
    stored_per_s: float | None = None  # requests that telemetry stores, whenever they ended
    down_s: Sequence[float] = ()  # for how long those of telemetry and the gateway are down that are


def without_age(why: str) -> str:
    """A reason of `stale_reason` as it can be told later."""
    return re.sub(r" \((it has none of|the newest ended) [^)]*\)", "", why)


def stale_reason(seen: Freshness, patience_s: float) -> str:
    """Why the last minutes of the ledger cannot be trusted; empty where they can.

    A request in it that ended within `patience_s`, and the time that telemetry is behind, proves that requests arrive, unless
    telemetry or the gateway was seen down after it ended. Without one, an empty ledger is trusted only if the gateway or telemetry is
    seen and the gateway counts no requests. It counts them as they end, so long answers do not matter.
    """
    behind_s = seen.behind_s or 0.0
    if behind_s > max(MAX_BEHIND_S, patience_s):
        why = seen.telemetry_error or "the newest requests are not in the ledger yet"
        return f"telemetry is {TEXT.duration(behind_s)} behind: {why}"
    if seen.newest_s is not None and seen.newest_s <= min((patience_s + behind_s, *seen.down_s)):
        return ""
    age = (
        "it has none of the last day"
        if seen.newest_s is None
        else f"the newest ended {TEXT.duration(seen.newest_s)} ago"
    )
    if seen.telemetry == "down":
        return f"telemetry is down: no request reaches the ledger ({age})"
    if seen.gateway == "down":
        return f"the gateway is down: it serves no requests ({age})"
    if seen.gateway_per_s and seen.stored_per_s:
        which = "the gateway's clock is off, or it sends what it kept"
        return f"requests reach the ledger ({seen.stored_per_s:.1f}/s), and by their own clocks {age}: {which}"
    if seen.gateway_per_s and seen.telemetry_error:
        return f"no request reaches the ledger ({age}): {seen.telemetry_error}"
    if seen.gateway_per_s:
        return f"the gateway ends {seen.gateway_per_s:.1f} requests/s, and none reaches the ledger ({age})"
    if seen.newest_s is not None and not {"up", "degraded"} & {seen.telemetry, seen.gateway}:
        return f"telemetry and the gateway were not observed lately, and no request reaches the ledger ({age})"
    return ""
