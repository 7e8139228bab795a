"""A bounded queue that is fair to tiers, and within a tier to its tenants. It knows no clock and no event loop.

Start-time fair queueing (Goyal, Vin, Cheng: "Start-time Fair Queueing", SIGCOMM 1996): a tier has a tag, which grows by
the cost of what it got divided by its weight, and the smallest tag is next. Here the best priority is next as long as its
tag is not too far in front of the smallest. So a tier that keeps within its share never waits behind a worse one, and a
tier that wants more cannot keep a worse one from its own share. Inside a tier, tenants have tags and equal weights.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T", bound=Hashable)

BETTER_COUNTS = 8.0
"""A tier counts this many times as much as one of the next worse priority and the same weight."""

_KEEPS_FROM = 8  # places per tier; a smaller queue keeps none
_MEAN_OVER = 64  # requests
_FLOWS_KEPT = 64  # tenants of a tier that have no request waiting


class Claim(NamedTuple):
    """What a request wants. `priority` 1 is the best, `cost` is its work in tokens as far as that is known beforehand."""

    tier: str
    tenant: str = ""
    priority: int = 2
    weight: float = 1.0
    cost: float = 1.0

    @property
    def share(self) -> float:
        """What the tier counts beside others that have requests waiting."""
        return self.weight * BETTER_COUNTS ** (3 - self.priority)


class Charge(NamedTuple):
    """When a request was charged. What tiers and flows got is forgotten while nobody waits, and the charge with it."""

    queue: int
    tier: int


class _Flow(Generic[T]):
    """The requests of one tenant in one tier."""

    __slots__ = ("listed", "tag", "waiting")

    def __init__(self) -> None:
        self.tag = 0.0
        self.waiting: OrderedDict[T, Claim] = OrderedDict()
        self.listed = False  # it is in the tier's heap


class _Tier(Generic[T]):
    __slots__ = ("_heap", "_serial", "_virtual", "epoch", "flows", "priority", "share", "size", "tag")

    priority: int
    share: float

    def __init__(self) -> None:
        self.tag = 0.0
        self.size = 0
        self.epoch = 0  # how often its flows were forgotten
        self.flows: dict[str, _Flow[T]] = {}
        self._heap: list[tuple[float, int, _Flow[T]]] = []  # flows by their tag; some may have nobody waiting any more
        self._serial = 0
        self._virtual = 0.0  # the tag of the flow that was served last

    def push(self, claim: Claim, who: T) -> None:
        flow = self.flows.get(claim.tenant)
        if flow is None:
            flow = self.flows[claim.tenant] = _Flow()
        if not flow.waiting:
            flow.tag = max(flow.tag, self._virtual)
        flow.waiting[who] = claim
        self.size += 1
        if not flow.listed:
            self._list(flow)

    def pop(self) -> tuple[Claim, T]:
        while True:
            tag, _, flow = heapq.heappop(self._heap)
            flow.listed = False
            if not flow.waiting:
                continue
            if tag < flow.tag:  # it was charged for more than was expected
                self._list(flow)
                continue
            who, claim = flow.waiting.popitem(last=False)
            self.size -= 1
            self._virtual = max(self._virtual, flow.tag)
            flow.tag += claim.cost
            if flow.waiting:
                self._list(flow)
            self._forget_flows()
            return claim, who

    def remove(self, claim: Claim, who: T) -> bool:
        flow = self.flows.get(claim.tenant)
        if flow is None or flow.waiting.pop(who, None) is None:
            return False
        self.size -= 1
        self._forget_flows()
        return True

    def longest(self) -> OrderedDict[T, Claim]:
        return max(self.flows.values(), key=lambda flow: len(flow.waiting)).waiting

    def _list(self, flow: _Flow[T]) -> None:
        self._serial += 1
        flow.listed = True
        heapq.heappush(self._heap, (flow.tag, self._serial, flow))

    def _forget_flows(self) -> None:
        """Flows without requests count only as far as they got more than the others."""
        if not self.size:
            self.flows.clear()
            self._heap.clear()
            self._virtual = 0.0
            self.epoch += 1
        elif len(self.flows) > self.size + _FLOWS_KEPT:
            for tenant in [name for name, f in self.flows.items() if not f.waiting and f.tag <= self._virtual]:
                del self.flows[tenant]


class FairQueue(Generic[T]):
    """At most `most` wait, which may change at any time. `ahead` is how many requests of a mean cost the tier with the
    largest share may get before its share, while a worse one waits; the others may get fewer, as their shares are smaller.
    """

    def __init__(self, most: int, ahead: int) -> None:
        self.most = most
        self.ahead = ahead
        self._tiers: dict[str, _Tier[T]] = {}
        self._size = 0
        self._virtual = 0.0  # the smallest tag of tiers that wait
        self._mean_cost = 1.0
        self._epoch = 0  # how often all tags were forgotten
        self.charge = Charge(0, 0)  # of the request that was removed last

    def __len__(self) -> int:
        return self._size

    def has_room(self, claim: Claim) -> bool:
        """Whether `claim` may be pushed. Places that worse tiers do not use now are kept for them, as far as their shares
        go. For better tiers none are kept, since those displace.
        """
        self._tier(claim)
        kept = 0
        for tier in self._tiers.values():
            if tier.priority > claim.priority:
                kept += max(0, self._kept(tier) - tier.size)
        return self._size + kept < self.most

    def displace(self, claim: Claim) -> T | None:
        """Remove one that makes room for `claim`: the newest of the worst tier that is worse than its own and has more than
        the places kept for it; else the newest of a tenant of its own tier that has more waiting than its own tenant.
        None if there is none.
        """
        own = self._tier(claim)
        for tier in sorted(self._tiers.values(), key=lambda tier: -tier.priority):
            if tier.priority <= claim.priority:
                break
            if tier.size > self._kept(tier):
                return self._drop(tier)
        if own.size:
            mine = own.flows.get(claim.tenant)
            if len(own.longest()) > (len(mine.waiting) if mine else 0) + 1:
                return self._drop(own)
        return None

    def push(self, claim: Claim, who: T) -> None:
        tier = self._tier(claim)
        if not tier.size:
            self._advance()
            tier.tag = max(tier.tag, self._virtual)
        self._mean_cost += (claim.cost - self._mean_cost) / _MEAN_OVER
        tier.push(claim, who)
        self._size += 1

    def waiting_in(self, tier: str) -> int:
        """How many of the tier wait."""
        return self._tiers[tier].size if tier in self._tiers else 0

    def pop(self) -> T:
        """Remove the next. Raises ValueError if nobody waits."""
        who = self.pop_of(lambda priority: True)
        if who is None:
            raise ValueError("nobody waits")
        return who

    def pop_of(self, may: Callable[[int], bool]) -> T | None:
        """Remove the next of those whose priority `may` be served now; None if there is none."""
        self._advance()
        share = max((tier.share for tier in self._tiers.values()), default=1.0)
        limit = self._virtual + self.ahead * self._mean_cost / share
        waiting = [tier for tier in self._tiers.values() if tier.size]
        waiting.sort(key=lambda tier: (tier.tag > limit, tier.priority, tier.tag))
        for tier in waiting:
            if may(tier.priority):
                self.charge = Charge(self._epoch, tier.epoch)
                claim, who = tier.pop()
                tier.tag += claim.cost / tier.share
                self._shrink()
                return who
        return None

    def remove(self, claim: Claim, who: T) -> bool:
        """Remove `who`, which was pushed with `claim`. False if it does not wait any more."""
        tier = self._tiers.get(claim.tier)
        if tier is None or not tier.remove(claim, who):
            return False
        self._shrink()
        return True

    def settle(self, claim: Claim, cost: float, charge: Charge) -> None:
        """`claim`, which was charged then, has cost this much in the end."""
        tier = self._tiers.get(claim.tier)
        if tier is None or charge.queue != self._epoch:
            return
        tier.tag += (cost - claim.cost) / claim.share
        flow = tier.flows.get(claim.tenant)
        if flow is not None and charge.tier == tier.epoch:
            flow.tag += cost - claim.cost

    def _tier(self, claim: Claim) -> _Tier[T]:
        tier = self._tiers.get(claim.tier)
        if tier is None:
            tier = self._tiers[claim.tier] = _Tier()
        tier.priority, tier.share = claim.priority, claim.share
        return tier

    def _kept(self, tier: _Tier[T]) -> int:
        """How many places of the queue no better tier takes from `tier`."""
        if self.most < _KEEPS_FROM * len(self._tiers):
            return 0
        return max(1, int(self.most * tier.share / sum(other.share for other in self._tiers.values())))

    def _drop(self, tier: _Tier[T]) -> T:
        who, claim = next(reversed(tier.longest().items()))
        tier.remove(claim, who)
        self._shrink()
        return who

    def _advance(self) -> None:
        self._virtual = max(self._virtual, min((tier.tag for tier in self._tiers.values() if tier.size), default=0.0))

    def _shrink(self) -> None:
        self._size -= 1
        if not self._size:  # whoever got more than its share did not take it from anybody
            self._virtual = 0.0
            self._epoch += 1
            for tier in self._tiers.values():
                tier.tag = 0.0
