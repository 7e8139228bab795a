"""Charges requests to the limits of their tenant and key, over all gateways that share a Redis.

A request with limits costs one command, which goes out with its cache lookup. While Redis does not answer, each gateway
counts alone, and says so in `x-weir-limits`, in `weir_gateway_limits_local` and in the log.
"""

import asyncio
import itertools
import secrets
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Literal, cast

import structlog

from inference.contract.metering.rate_limit import SLOT_MS, SLOTS, Limit, Spent, Window, duration
from inference.contract.metering.spending import MICRO, period_of
from inference.core.openai import errors
from inference.request.limit_script import SCRIPT, SHA
from inference.tasks import keep
from inference.wires.http.exchange import Headers
from inference.wires.redis import Argument, RedisClient, RedisLostError, ReplyError

_log = structlog.get_logger()
_RETRY_AFTER_S = 1.0  # where requests in flight are limited: nobody knows when one ends
_EXTEND_TOKENS = 8  # at least, when an answer is longer than was expected, and an eighth of what it has used
_LEASES_AT_ONCE = 1000

_SAY_EVERY_S = 10.0

Reply = asyncio.Future[object]
Script = tuple[bytes, bytes | str]
_KNOWN: Script = (b"EVALSHA", SHA)
_WHOLE: Script = (b"EVAL", SCRIPT)


class Limits:
    """Counts for all requests of this process. `lease_ms` is how long the places of a gateway that was killed stay taken."""

    def __init__(self, redis: RedisClient | None, lease_ms: int) -> None:
        self._redis = redis
        self._lease_ms = lease_ms
        self._process = secrets.token_hex(8)
        self._serial = itertools.count()
        self._windows: defaultdict[bytes, Window] = defaultdict(Window)
        self._leases: defaultdict[bytes, set[str]] = defaultdict(set)
        self._spent: defaultdict[bytes, Spent] = defaultdict(Spent)
        self._task: asyncio.Task[None] | None = None
        self._said_local, self._say_again_s = False, 0.0
        self.local = False  # whether the last request was counted by this process alone
        self.counted_locally = 0  # requests
        self.costs_estimated = 0  # of requests of keys with budgets

    def start(self) -> None:
        self._task = keep("limits", self._renew)

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def begin(self, limits: Sequence[Limit], tier: str, tokens: int, timeout_s: float) -> "Meter":
        """Send the request's command. `tokens` is what it will probably use. Await the meter's `entered`, and call its `leave`
        at the end.
        """
        meter = Meter(self, limits, tier, tokens, f"{self._process}.{next(self._serial)}", timeout_s)
        meter.send()
        return meter

    def enter(self, meter: "Meter", script: Script) -> Reply | None:
        """Have Redis count the request. None if it is not connected."""
        return self._send(_command(script, "enter", meter.limits, meter.lease, self._lease_ms, meter.expected, 0))

    async def wait(self, reply: Reply, timeout_s: float) -> object:
        """The reply, which is awaited for at most `timeout_s` and may come later. Raises RedisLostError, TimeoutError."""
        assert self._redis is not None
        return await self._redis.wait(reply, timeout_s)

    def settle(self, meter: "Meter", lease: str, tokens: int, slot: int, cost: int) -> None:
        """Have Redis count that many tokens more (or fewer, in the slot where they were taken) and what the request cost, and end the
        lease.
        """
        self._send(_command(_KNOWN, "settle", meter.limits, lease, 0, tokens, slot, cost), hurry=False)

    def take(self, meter: "Meter", *, alone: bool) -> tuple[Limit, float] | None:
        """Count the request here. `alone` says that Redis did not, so that the limits are enforced here: then the first limit
        that is reached is returned with the wait, and nothing is counted.
        """
        now_ms = monotonic_ms()
        self._say(alone)
        meter.local = alone
        if alone:
            self.counted_locally += 1
            used: list[int] = []
            meter.used = used
            for limit in meter.limits:
                if limit.kind == "in_flight":
                    used.append(len(self._leases.get(limit.key, ())))
                    if used[-1] >= limit.most:
                        return limit, _RETRY_AFTER_S
                elif budget := limit.budget:
                    now_s = time.time()
                    period = period_of(budget, now_s)
                    used.append(self._spent[limit.key].used(period.name))
                    if used[-1] >= limit.most:
                        return limit, period.ends_s - now_s
                else:
                    window = self._windows[limit.key]
                    used.append(window.used(now_ms))
                    if wait_ms := window.wait_ms(limit.most, now_ms):
                        return limit, wait_ms / 1000
            units = {"tokens": meter.expected, "usd_day": 0, "usd_month": 0}
            meter.used = [taken + units.get(limit.kind, 1) for taken, limit in zip(used, meter.limits, strict=True)]
        for limit in meter.limits:
            if limit.kind == "in_flight":
                self._leases[limit.key].add(meter.lease)
            elif limit.kind == "requests" or limit.kind == "tokens":
                taken = meter.expected if limit.kind == "tokens" else 1
                meter.local_slot = self._windows[limit.key].take(taken, now_ms)
        return None

    def settle_here(self, meter: "Meter", tokens: int, *, over: bool) -> None:
        """Count that many tokens more (or fewer) in this process. `over` says that the request has ended."""
        for limit in meter.limits:
            if limit.kind == "tokens" and tokens:
                window = self._windows[limit.key]
                if tokens > 0:
                    window.take(tokens, monotonic_ms())
                else:
                    window.give_back(-tokens, meter.local_slot)
            elif limit.kind == "in_flight" and over:
                leases = self._leases[limit.key]
                leases.discard(meter.lease)
                if not leases:
                    del self._leases[limit.key]
            elif over and meter.cost and (budget := limit.budget):
                self._spent[limit.key].take(meter.cost, period_of(budget, time.time()).name)

    def _say(self, alone: bool) -> None:
        self.local = alone
        now_s = time.monotonic()
        if alone != self._said_local and now_s >= self._say_again_s:
            self._said_local, self._say_again_s = alone, now_s + _SAY_EVERY_S
            if alone:
                _log.warning(
                    "limits.left_shared", effect="each gateway counts for itself, as long as Redis does not answer"
                )
            else:
                _log.info("limits.became_shared")

    def _send(self, command: Sequence[Argument], hurry: bool = True) -> Reply | None:
        if self._redis is None or not self._redis.up:
            return None
        try:
            return self._redis.send(*command, hurry=hurry)
        except RedisLostError:
            return None

    async def _renew(self) -> None:
        """Keep the places of long requests, also after Redis has lost its data. Forget windows in which nothing counts."""
        pause_s = self._lease_ms / 3000
        while True:
            await asyncio.sleep(pause_s)
            now_ms = monotonic_ms()
            for key in [key for key, window in self._windows.items() if not window.used(now_ms)]:
                del self._windows[key]
            for key, leases in list(self._leases.items()):
                ids = list(leases)
                for start in range(0, len(ids), _LEASES_AT_ONCE):
                    await self._renew_some(key, ids[start : start + _LEASES_AT_ONCE], pause_s)

    async def _renew_some(self, key: bytes, given: list[str], timeout_s: float) -> None:
        for script in (_KNOWN, _WHOLE):
            present = self._leases.get(key, ())
            ids = [lease for lease in given if lease in present]  # others have ended while this waited for Redis
            if not ids:
                return
            command = (*script, 1, key, "renew", "", "", self._lease_ms, 0, 0, *ids)
            reply = self._send(command)
            try:
                if reply is None or not _is_unknown(await self.wait(reply, timeout_s)):
                    return
            except (RedisLostError, TimeoutError):
                return


@dataclass(slots=True, eq=False)
class Meter:
    """What one request has taken."""

    _service: Limits
    limits: Sequence[Limit]
    tier: str
    expected: int  # tokens, taken at the start
    lease: str
    _timeout_s: float
    counts_tokens: bool = field(init=False)
    counts_money: bool = field(init=False)
    used: Sequence[int] = ()  # of each limit, with this request
    cost: int = 0  # millionths of a USD, once the request has ended
    local: bool = False  # this process counted it alone
    local_slot: int = 0
    _has_place: bool = field(init=False)
    _reply: Reply | None = None  # of Redis
    _state: Literal["waiting", "counted", "absent"] = "waiting"  # at Redis, as far as it is known
    _slot: int = 0  # where Redis counted it
    _taken: bool = False
    _charged: int = 0
    _reserved: int = field(init=False)  # tokens, here
    _reserved_there: int = field(init=False)  # tokens, at Redis

    def __post_init__(self) -> None:
        kinds = [limit.kind for limit in self.limits]
        self.counts_tokens, self._has_place = "tokens" in kinds, "in_flight" in kinds
        self.counts_money = any(limit.budget for limit in self.limits)
        self._reserved = self._reserved_there = self.expected

    def send(self, script: Script = _KNOWN) -> None:
        self._reply = self._service.enter(self, script)
        if self._reply is None:
            self._state = "absent"

    async def entered(self) -> None:
        """Wait until the request is counted. Raises ApiError if a limit is reached."""
        value = await self._answer()
        refusal: tuple[Limit, float] | None
        if isinstance(value, list):
            refusal = self._read(value) or self._service.take(self, alone=False)
        else:
            if value is not None:
                self._state = "absent"
            refusal = self._service.take(self, alone=True)
        if refusal is not None:
            limit, wait_s = refusal
            raise errors.rate_limited(self.tier, limit, wait_s)
        self._taken = True

    def charge(self, used: int) -> None:
        """`used` counts all tokens so far. If they are more than were taken, take more, and some in advance."""
        if used > self._charged:
            self._charged = used
            if used > self._reserved and self._taken:
                more = max(used - self._reserved, used // 8, _EXTEND_TOKENS)
                self._reserved += more
                self._service.settle_here(self, more, over=False)
                if self._state == "counted":
                    self._reserved_there += more
                    self._settle(more, "")

    def leave(self) -> None:
        """The request has ended: give back its place, and the tokens that it did not use."""
        if self._taken:
            self._taken = False
            self._service.settle_here(self, self._charged - self._reserved, over=True)
        if self._state == "counted":
            self._settle(self._charged - self._reserved_there, self.lease, self.cost)
        elif self._state == "waiting" and self._reply is not None:
            self._reply.add_done_callback(self._came_late)

    def pay(self, usd: float | None, most_usd: float) -> None:
        """What the request has cost; where that is not known, what it may have cost."""
        if usd is None:
            self._service.costs_estimated += 1
        self.cost = ceil(MICRO * (most_usd if usd is None else usd))

    def headers(self) -> Headers:
        """The headers that OpenAI sends, of the limit of which the least is left; and the same of budgets."""
        out: Headers = []
        if self.local:
            out.append((b"x-weir-limits", b"local"))
        for kind, name in (("requests", b"requests"), ("tokens", b"tokens")):
            states = [
                (max(0, limit.most - used), limit.most, used)
                for limit, used in zip(self.limits, self.used, strict=False)
                if limit.kind == kind
            ]
            if states:
                remaining, most, used = min(states)
                out += (
                    (b"x-ratelimit-limit-" + name, b"%d" % most),
                    (b"x-ratelimit-remaining-" + name, b"%d" % remaining),
                    (b"x-ratelimit-reset-" + name, duration((SLOTS + 1) * SLOT_MS / 1000 if used else 0)),
                )
        if self.counts_money:
            out += self._budget_headers()
        return out

    def _budget_headers(self) -> Headers:
        now_s = time.time()
        remaining, most, ends_s = min(
            (max(0, limit.most - used), limit.most, period_of(budget, now_s).ends_s)
            for limit, used in zip(self.limits, self.used, strict=False)
            if (budget := limit.budget)
        )
        return [
            (b"x-weir-budget-limit-usd", b"%.6f" % (most / MICRO)),
            (b"x-weir-budget-remaining-usd", b"%.6f" % (remaining / MICRO)),
            (b"x-weir-budget-reset", duration(ends_s - now_s)),
        ]

    async def _answer(self) -> object:
        """Redis's reply, None where it did not come in time."""
        for script in (_KNOWN, _WHOLE):
            if script is _WHOLE:
                self.send(script)
            if self._reply is None:
                return None
            try:
                value = await self._service.wait(self._reply, self._timeout_s)
            except TimeoutError:
                return None
            except RedisLostError:
                self._state = "absent"
                return None
            if not _is_unknown(value):
                return value
        return value

    def _read(self, value: list[object]) -> tuple[Limit, float] | None:
        """Note what Redis has counted. Returns the limit that is reached and the wait, if it refused the request."""
        number, wait_ms, self._slot, *self.used = cast(list[int], value)
        self._state = "absent" if number else "counted"
        if not number:
            return None
        limit = self.limits[number - 1]
        if budget := limit.budget:
            now_s = time.time()
            return limit, period_of(budget, now_s).ends_s - now_s
        return limit, wait_ms / 1000 or _RETRY_AFTER_S

    def _came_late(self, reply: Reply) -> None:
        """Redis has counted a request that has ended meanwhile, or that was counted here because Redis was late."""
        value = reply.result() if not reply.cancelled() and reply.exception() is None else None
        if isinstance(value, list) and self._read(value) is None:
            self._settle(self._charged - self._reserved_there, self.lease, self.cost)

    def _settle(self, tokens: int, lease: str, cost: int = 0) -> None:
        if (tokens and self.counts_tokens) or (lease and self._has_place) or cost:
            self._service.settle(self, lease, tokens, self._slot, cost)


def _command(
    script: Script,
    mode: str,
    limits: Sequence[Limit],
    lease: str,
    lease_ms: int,
    tokens: int,
    slot: int,
    cost: int = -1,
) -> list[Argument]:
    """`cost` is -1 while it is not known."""
    command: list[Argument] = [*script, len(limits)]
    command += [limit.key for limit in limits]
    command += (mode, "", lease, lease_ms, tokens, slot)
    for limit in limits:
        if budget := limit.budget:
            command += (f"usd:{period_of(budget, time.time()).name}", limit.most if cost < 0 else cost)
        else:
            command += (limit.kind, limit.most)
    return command


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _is_unknown(reply: object) -> bool:
    """Whether Redis does not have the script: it was started anew, or is another server."""
    return isinstance(reply, ReplyError) and str(reply).startswith("NOSCRIPT")
