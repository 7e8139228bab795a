"""Limits of a tenant or of a key: requests and tokens in any minute, and requests in flight.

A minute is a sliding one, counted in slots of half a second. What was taken counts until its slot is wholly older than a
minute, so no minute ever has more than the limit; a steady client gets at least 120/121 of it. `inference/request/
limit_script.py` counts the same way in Redis.
"""

from collections import deque
from math import ceil
from typing import Literal, NamedTuple

from inference.contract.metering.spending import MICRO, Budget, key_prefix, tenant_prefix
from inference.contract.snapshot import Key, Tier

SLOT_MS = 500
SLOTS = 120
"""Slots in a minute. With the present one, 121 count."""

Kind = Literal["requests", "tokens", "in_flight"] | Budget
SHED_REASONS: dict[Kind, str] = {
    "requests": "requests_per_minute",
    "tokens": "tokens_per_minute",
    "in_flight": "max_in_flight",
    "usd_day": "budget_per_day",
    "usd_month": "budget_per_month",
}


class Limit(NamedTuple):
    """`most` units, counted under `key`: all processes that share a Redis share what is counted there. Units of budgets are millionths
    of a USD.
    """

    kind: Kind
    scope: Literal["tenant", "key"]
    key: bytes
    most: int

    @property
    def budget(self) -> Budget | None:
        """The kind of a limit in money; None of any other."""
        return self.kind if self.kind == "usd_day" or self.kind == "usd_month" else None


def limits_of(tenant: str, tier: Tier, key: Key | None = None, *, of: str = "") -> tuple[Limit, ...]:
    """The limits of a tenant, and of its key where that has some. `of` names requests that are counted apart from its others."""
    prefix = tenant_prefix(tenant) + (f"{of}:" if of else "")
    limits = [
        Limit("requests", "tenant", _key(prefix, "requests"), tier.requests_per_minute),
        Limit("tokens", "tenant", _key(prefix, "tokens"), tier.tokens_per_minute),
        Limit("in_flight", "tenant", _key(prefix, "in_flight"), tier.max_in_flight),
    ]
    if key is not None:
        prefix = key_prefix(tenant, key.sha256)
        limits += [
            Limit("requests", "key", _key(prefix, "requests"), key.requests_per_minute),
            Limit("tokens", "key", _key(prefix, "tokens"), key.tokens_per_minute),
            Limit("in_flight", "key", _key(prefix, "in_flight"), key.max_in_flight),
            Limit("usd_day", "key", _key(prefix, "usd_day"), ceil(key.usd_per_day * MICRO)),
            Limit("usd_month", "key", _key(prefix, "usd_month"), ceil(key.usd_per_month * MICRO)),
        ]
    return tuple(limit for limit in limits if limit.most > 0)


def _key(prefix: str, kind: Kind) -> bytes:
    return (prefix + kind).encode()


class Window:
    """Units taken in the last minute. Times are ms on any clock that does not go back."""

    __slots__ = ("_slots", "_used")

    def __init__(self) -> None:
        self._slots: deque[list[int]] = deque()  # [slot, units], the oldest first
        self._used = 0

    def used(self, now_ms: int) -> int:
        oldest = now_ms // SLOT_MS - SLOTS
        while self._slots and self._slots[0][0] < oldest:
            self._used -= self._slots.popleft()[1]
        return self._used

    def wait_ms(self, most: int, now_ms: int) -> int:
        """How long until less than `most` are used, if nothing more is taken; 0 when that is so now."""
        excess = self.used(now_ms) - most + 1
        if excess <= 0:
            return 0
        for slot, units in self._slots:
            excess -= units
            if excess <= 0:
                return (slot + SLOTS + 1) * SLOT_MS - now_ms
        return (SLOTS + 1) * SLOT_MS  # `most` is 0

    def take(self, units: int, now_ms: int) -> int:
        """Count `units` now. Returns the slot."""
        slot = now_ms // SLOT_MS
        self.used(now_ms)
        self._used += units
        if self._slots and self._slots[-1][0] == slot:
            self._slots[-1][1] += units
        else:
            self._slots.append([slot, units])
        return slot

    def give_back(self, units: int, slot: int) -> None:
        """Units that were taken in `slot` are not used after all."""
        for counted in reversed(self._slots):
            if counted[0] == slot:
                units = min(units, counted[1])
                counted[1] -= units
                self._used -= units
            if counted[0] <= slot:
                break


class Spent:
    """What was spent in a period."""

    __slots__ = ("_period", "_units")

    def __init__(self) -> None:
        self._period, self._units = "", 0

    def used(self, period: str) -> int:
        return self._units if period == self._period else 0

    def take(self, units: int, period: str) -> None:
        self._units, self._period = self.used(period) + units, period


def duration(seconds: float) -> bytes:
    """A duration as OpenAI writes it: `12ms`, `1.5s`, `1m30s`."""
    if seconds < 1:
        return b"%dms" % round(seconds * 1000)
    if seconds < 60:
        return f"{seconds:.3f}".rstrip("0").rstrip(".").encode() + b"s"
    return b"%dm%ds" % divmod(round(seconds), 60)
