"""What a gateway says of its traffic at `/signals`, and what follows from several answers of several gateways.

Totals run since the gateway started. Times are ms since 1970, on the reader's clock.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import add
from typing import NamedTuple

from controlplane.policy.core.observation import PoolFacts, Silent
from inference.contract.gateway_signals import GatewaySignals, ModelSignals, PoolSignals, ReplicaSignals

SHORT_S, LONG_S = 3.0, 30.0
"""How far back a wait is averaged, and tokens and tiers. Requests/s are those since the tick before: the scaling law has its own means."""
LOST_AFTER_S = 30.0
"""A gateway that its cluster no longer has counts on for this long: until then its process may still serve."""
MS_PER_S = 1_000


class NoGateway(str):
    """Why there are no signals, where what answers is no gateway."""

    __slots__ = ()


class Rates(NamedTuple):
    """Growth of a pool's totals, per second."""

    arrived: float = 0.0
    lines: float = 0.0
    answered: float = 0.0
    input_tokens: float = 0.0
    output_tokens: float = 0.0
    queue_wait_s: float = 0.0
    queue_waits: float = 0.0


_TOTALS = ("arrived", "lines", "answered", "input_tokens", "output_tokens", "queue_wait_s_sum", "queue_wait_count")
"""Of `PoolSignals`, in the order of `Rates`."""


class TierRates(NamedTuple):
    """Growth of the totals of a model's tier, per second."""

    arrived: float = 0.0
    shed: float = 0.0


@dataclass(frozen=True, slots=True)
class Heard:
    """The latest answer of one gateway, how its totals grew since the one before, and why it does not answer now."""

    url: str
    at_ms: int | None = None
    signals: GatewaySignals | None = None
    pools: Mapping[str, Rates] | None = None
    """None before its second answer."""
    tiers: Mapping[tuple[str, str], TierRates] | None = None
    requests_per_s: float | None = None
    cpu_use: float | None = None
    """Of a core for each of its workers."""
    problem: str = ""
    ready: bool = True
    """Whether it gets requests. One that does not may still have some."""
    missing_ms: int | None = None
    """Since when no cluster has it."""

    @property
    def counts(self) -> bool:
        """Whether what it said is its load now. One that is ready counts on while it is silent; one that ends does not."""
        return self.ready or not self.problem

    @property
    def may_have_traffic(self) -> bool:
        return self.signals is not None or not isinstance(self.problem, NoGateway)

    def age_ms(self, now_ms: int) -> int | None:
        return None if self.at_ms is None else max(0, now_ms - self.at_ms)

    def failed(self, problem: str) -> "Heard":
        return replace(self, problem=problem, missing_ms=None)

    def missed(self, at_ms: int) -> "Heard | None":
        """Of a gateway that no cluster has now; None once it is gone for good."""
        since_ms = at_ms if self.missing_ms is None else min(self.missing_ms, at_ms)
        if self.signals is None or at_ms - since_ms >= LOST_AFTER_S * MS_PER_S:
            return None
        return replace(self, problem=f"{self.url} is in no cluster any more", missing_ms=since_ms)

    def is_process_of(self, other: "Heard") -> bool:
        """Whether both are answers of one process, at two URLs."""
        own, its = self.signals, other.signals
        return own is not None and its is not None and (own.gateway, own.started_ms) == (its.gateway, its.started_ms)

    def answered(self, at_ms: int, signals: GatewaySignals) -> "Heard":
        before = self.signals
        if before is None or self.at_ms is None or at_ms <= self.at_ms:
            return Heard(self.url, at_ms, signals)
        if signals == before:  # each answer has its own time: totals that stand still here are no traffic of 0
            return self.failed(f"{self.url}/signals repeats an answer: what lies between must not keep it")
        if _restarted(before, signals):  # what it has counted since its start is no rate: the last ones count on
            return replace(self, at_ms=at_ms, signals=signals, problem="", missing_ms=None)
        growth = _Growth((at_ms - self.at_ms) / MS_PER_S)
        return Heard(
            self.url,
            at_ms,
            signals,
            growth.of_pools(before, signals),
            growth.of_tiers(before, signals),
            growth.per_s(before.requests, signals.requests),
            growth.per_s(before.cpu_s, signals.cpu_s) / max(1, signals.workers),
        )


def _restarted(before: GatewaySignals, after: GatewaySignals) -> bool:
    """Whether totals began again at 0."""
    nothing = PoolSignals()
    return (
        before.started_ms != after.started_ms
        or after.requests < before.requests
        or any(pool.arrived < before.pools.get(name, nothing).arrived for name, pool in after.pools.items())
    )


@dataclass(frozen=True, slots=True)
class _Growth:
    """Of totals within `s` seconds."""

    s: float

    def per_s(self, was: float, now: float) -> float:
        return max(0.0, now - was) / self.s

    def of_pools(self, before: GatewaySignals, after: GatewaySignals) -> dict[str, Rates]:
        nothing = PoolSignals()
        pools = {}
        for name, pool in after.pools.items():
            was = before.pools.get(name, nothing)
            pools[name] = Rates(*(self.per_s(getattr(was, total), getattr(pool, total)) for total in _TOTALS))
        return pools

    def of_tiers(self, before: GatewaySignals, after: GatewaySignals) -> dict[tuple[str, str], TierRates]:
        nothing = ModelSignals()
        return {
            (model, name): TierRates(self.per_s(was.arrived, tier.arrived), self.per_s(was.shed, tier.shed))
            for model, tiers in after.models.items()
            for name, tier in tiers.items()
            for was in (before.models.get(model, {}).get(name, nothing),)
        }


@dataclass(frozen=True, slots=True)
class Round:
    """The rates of all gateways together at one moment. A gateway that is silent counts with its last rates."""

    at_ms: int
    pools: Mapping[str, Rates]
    tiers: Mapping[tuple[str, str], TierRates]
    requests_per_s: Mapping[str, float] = field(default_factory=dict)
    """By gateway."""

    @classmethod
    def add_up(cls, at_ms: int, heard: Iterable[Heard]) -> "Round":
        pools: dict[str, Rates] = {}
        tiers: dict[tuple[str, str], TierRates] = {}
        requests_per_s: dict[str, float] = {}
        for each in heard:
            if each.requests_per_s is not None:
                requests_per_s[each.url] = each.requests_per_s
            for name, rates in (each.pools or {}).items():
                pools[name] = Rates(*map(add, rates, pools[name])) if name in pools else rates
            for key, of_tier in (each.tiers or {}).items():
                tiers[key] = TierRates(*map(add, of_tier, tiers[key])) if key in tiers else of_tier
        return cls(at_ms, pools, tiers, requests_per_s)


@dataclass(frozen=True, slots=True)
class Traffic:
    """All gateways that are known now, by URL, and the rounds of the last LONG_S, the newest last. Those that are not ready are among
    them once they have answered: replicas are not empty while such a gateway has requests there.
    """

    gateways: Mapping[str, Heard] = field(default_factory=dict)
    rounds: tuple[Round, ...] = ()
    since_ms: int | None = None
    """The last round that the tick before saw."""

    def next(self, at_ms: int, answers: Mapping[str, GatewaySignals | str], unready: Container[str] = ()) -> "Traffic":
        """With the answers of another round, by URL: signals, or why there are none. Other gateways are missing, and remembered with
        their last figures until they are gone for good.
        """
        gateways: dict[str, Heard] = {}
        for url, answer in answers.items():
            before = self.gateways.get(url, Heard(url))
            heard = before.failed(answer) if isinstance(answer, str) else before.answered(at_ms, answer)
            if url not in unready or heard.signals is not None:
                gateways[url] = replace(heard, ready=url not in unready)
        here = tuple(gateways.values())
        for url in self.gateways.keys() - answers.keys():
            missed = self.gateways[url].missed(at_ms)
            if missed is not None and not any(missed.is_process_of(each) for each in here):
                gateways[url] = missed
        # What is later is of a clock that was ahead.
        kept = [each for each in self.rounds if at_ms - LONG_S * MS_PER_S < each.at_ms < at_ms]
        if any(each.pools is not None for each in gateways.values()):
            kept.append(Round.add_up(at_ms, (each for each in gateways.values() if each.counts)))
        return Traffic(gateways, tuple(kept))

    @property
    def heard_s(self) -> float | None:
        """For how long rates have been read, at most LONG_S; None before the first."""
        return (self.rounds[-1].at_ms - self.rounds[0].at_ms) / MS_PER_S if self.rounds else None

    def age_ms(self, now_ms: int) -> int | None:
        """Of the oldest of the ready gateways' latest answers: a gateway that has fallen silent has traffic that nobody counts. None
        where there is no such gateway, or one that has never answered.
        """
        ages = [heard.age_ms(now_ms) for heard in self.in_use() if heard.ready]
        known = [age for age in ages if age is not None]
        return max(known) if known and len(known) == len(ages) else None

    def in_use(self) -> list[Heard]:
        """The gateways that traffic may go through."""
        return [heard for heard in self.gateways.values() if heard.may_have_traffic]

    def problem(self) -> str:
        """Why gateways that get requests are silent, each with its URL."""
        return "; ".join(heard.problem for _, heard in sorted(self.gateways.items()) if heard.ready and heard.problem)

    def in_flight_at(self, pool: str, replica: str) -> float | None:
        """Requests that all gateways together have at a replica. None where a gateway has never answered."""
        total = 0.0
        for heard in self.in_use():
            if heard.signals is None:
                return None
            at = heard.signals.pools.get(pool, PoolSignals()).replicas.get(replica)
            total += at.in_flight if at is not None else 0.0
        return total

    def warming_in(self, pool: str) -> set[str]:
        """The replicas of a pool that no gateway sends users' requests to yet, because they are being warmed up."""
        warming: set[str] = set()
        used: set[str] = set()
        for heard in self.gateways.values():
            if heard.signals is not None and pool in heard.signals.pools:
                for name, replica in heard.signals.pools[pool].replicas.items():
                    if replica.warming and not replica.draining:
                        warming.add(name)
                    elif replica.up:
                        used.add(name)
        return warming - used

    def obeys(self, endpoints_version: int, since_ms: int) -> bool:
        """Whether every gateway has said since then that it obeys these endpoints, or later ones. One that had ended before it was
        missing is not asked: it gets no new requests.
        """
        return bool(self.in_use()) and all(
            heard.signals is not None
            and heard.at_ms is not None
            and heard.at_ms >= since_ms
            and heard.signals.snapshot.endpoints_version >= endpoints_version
            for heard in self.in_use()
            if heard.ready or heard.missing_ms is None
        )

    def of_gateways(self, name: str, urls: Container[str], now_ms: int) -> PoolFacts:
        """What the API tier `name` of a cluster does: `urls` are its gateways."""
        own = Traffic({heard.url: heard for heard in self.in_use() if heard.url in urls and heard.counts})
        unknown = any(heard.requests_per_s is None for heard in own.gateways.values())
        signals = [heard.signals for heard in own.gateways.values() if heard.signals is not None]
        return PoolFacts(
            name,
            arrived_rps=None
            if unknown or not own.gateways
            else self.mean_since(lambda each: sum(each.requests_per_s.get(url, 0.0) for url in own.gateways)),
            heard_s=self.heard_s,
            in_flight=sum(pool.in_flight for each in signals for pool in each.pools.values()),
            cpu_use=_mean([heard.cpu_use for heard in own.gateways.values() if heard.ready]),
            traffic_age_ms=own.age_ms(now_ms),
            servers_age_ms=own.age_ms(now_ms),
            traffic_problem=own.problem(),
        )

    def mean_since(self, rate: Callable[[Round], float]) -> float | None:
        """The mean of a rate over the rounds since the tick before, each for as long as it stands for; without a round, the last one's.
        A tick that takes longer than a round would leave out what arrived in between. None where there was no round at all.
        """
        since_ms = self.since_ms
        new = [
            (each, each.at_ms - before.at_ms)
            for before, each in pairwise(self.rounds)
            if since_ms is not None and each.at_ms > since_ms
        ]
        if len(new) > 1:
            return sum(rate(each) * ms for each, ms in new) / sum(ms for _, ms in new)
        return rate(self.rounds[-1]) if self.rounds else None

    def tiers_of(self, model: str) -> set[str]:
        return {
            tier
            for heard in self.gateways.values()
            if heard.signals is not None
            for tier in heard.signals.models.get(model, {})
        }


def pool_traffic(traffic: Traffic, pool: str, now_ms: int) -> PoolFacts:
    """What all gateways together say of a pool. Nothing is known before each gateway has answered."""
    age_ms = traffic.age_ms(now_ms)
    if age_ms is None:
        return PoolFacts(pool, traffic_problem=traffic.problem())
    none = Rates()
    rounds = [(each.at_ms, each.pools.get(pool, none)) for each in traffic.rounds]
    latest = [
        heard.signals.pools.get(pool, PoolSignals())
        for heard in traffic.gateways.values()
        if heard.signals is not None and heard.counts
    ]
    answered = sum(rates.answered for _, rates in rounds)
    replicas = _servers(latest)
    kv_use = _mean([each.kv_use for each in replicas])
    ages_s = [each.age_s for each in replicas if each.age_s is not None]
    silent = any(each.age_s is None or (each.kv_use is None and kv_use is not None) for each in replicas if each.up)
    waiting = sum(each.waiting for each in latest)
    reached = _reached(latest)
    return PoolFacts(
        pool,
        arrived_rps=traffic.mean_since(lambda each: each.pools.get(pool, none).arrived),
        lines_rps=traffic.mean_since(lambda each: each.pools.get(pool, none).lines),
        heard_s=traffic.heard_s,
        input_tokens=sum(rates.input_tokens for _, rates in rounds) / answered if answered > 0 else None,
        output_tokens=sum(rates.output_tokens for _, rates in rounds) / answered if answered > 0 else None,
        waiting=waiting + sum(each.waiting or 0.0 for each in replicas),
        queue_delay_s=_queue_delay_s(
            [rates for at_ms, rates in rounds if at_ms > rounds[-1][0] - SHORT_S * MS_PER_S], waiting
        ),
        running=_sum([each.running for each in replicas]),
        in_flight=sum(each.in_flight for each in latest),
        lines_in_flight=sum(each.lines_in_flight for each in latest),
        kv_use=kv_use,
        traffic_age_ms=age_ms,
        servers_age_ms=int(max(ages_s) * MS_PER_S) + age_ms if ages_s and not silent else None,
        reachable=any(reached) if reached else None,
        cut_off=reached.count(False),
        traffic_problem=traffic.problem(),
        silent=_silent(traffic, pool),
    )


def _silent(traffic: Traffic, pool: str) -> Silent | None:
    """What counts on of gateways that do not answer now."""
    heard = [each for each in traffic.gateways.values() if each.signals is not None and each.counts and each.problem]
    if not heard:
        return None
    signals = [each.signals.pools.get(pool, PoolSignals()) for each in heard if each.signals is not None]
    return Silent(
        arrived_rps=sum((each.pools or {}).get(pool, Rates()).arrived for each in heard),
        waiting=sum(each.waiting for each in signals),
        in_flight=sum(each.in_flight for each in signals),
    )


def _servers(latest: Iterable[PoolSignals]) -> list[ReplicaSignals]:
    """Each replica as the gateway says that has looked last."""
    newest: dict[str, ReplicaSignals] = {}
    for pool in latest:
        for name, replica in pool.replicas.items():
            before = newest.get(name)
            if before is None or _age(replica) < _age(before):
                newest[name] = replica
    return list(newest.values())


def _age(replica: ReplicaSignals) -> float:
    return float("inf") if replica.age_s is None else replica.age_s


def _queue_delay_s(rounds: Sequence[Rates], waiting: float) -> float | None:
    """The mean wait of those that got a place within SHORT_S. Where requests wait and none got any, at least SHORT_S."""
    waits = sum(rates.queue_waits for rates in rounds)
    if waits > 0:
        return sum(rates.queue_wait_s for rates in rounds) / waits
    return None if not rounds else SHORT_S if waiting > 0 else 0.0


def _reached(latest: Iterable[PoolSignals]) -> list[bool]:
    """Whether each gateway that knows replicas reaches any. Unreachable is what all say: one may have ejected them for itself."""
    return [any(replica.up for replica in pool.replicas.values()) for pool in latest if pool.replicas]


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
