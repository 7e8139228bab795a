"""The gateways of a history: what each of them says at `/signals`, round by round, and what of it a controller hears."""

import random
from dataclasses import dataclass, field, replace
from typing import Any

from controlplane.policy.observe.core.traffic import Traffic, pool_traffic
from inference.contract.gateway_signals import GatewaySignals, Obeyed, PoolSignals, ReplicaSignals

ROUND_S = 5
OF_TRAFFIC = (
    "arrived_rps", "input_tokens", "output_tokens", "waiting", "queue_delay_s", "running", "in_flight", "kv_use",
    "traffic_age_ms", "servers_age_ms", "reachable", "cut_off", "traffic_problem", "silent",
)  # fmt: skip
EVENTS = ("silent", "dead", "cut_off")
"""It serves, and nobody hears it. Its process ended, and another began. It reaches no replica."""
DEAD_TICKS_IN_CLUSTER = 1
"""For so long the cluster lists a gateway whose process has ended."""


@dataclass(frozen=True)
class Moment:
    """What is true of the pool during a round."""

    arrived_rps: float
    waiting: float
    in_flight: float
    queue_delay_s: float
    kv_use: float
    reachable: bool
    servers_age_s: float | None


@dataclass
class Gateway:
    url: str
    started_ms: int = 1
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)
    restarts: int = -1
    """The tick at which it starts again at once, or -1."""
    arrived: float = 0.0
    wait_s: float = 0.0

    def is_(self, event: str, tick: int) -> bool:
        first, end = self.spans.get(event, (0, 0))
        return first <= tick < end

    def listed(self, tick: int) -> bool:
        return not self.is_("dead", tick) or tick < self.spans["dead"][0] + DEAD_TICKS_IN_CLUSTER

    def start(self, at_ms: int) -> None:
        self.started_ms, self.arrived, self.wait_s = at_ms, 0.0, 0.0

    def signals(self, at_ms: int, now: Moment, waiting: int, in_flight: int | None) -> GatewaySignals:
        """`in_flight` is None where it reaches no replica."""
        replica = ReplicaSignals(
            in_flight=in_flight or 0,
            up=now.reachable and in_flight is not None,
            running=now.in_flight if now.servers_age_s is not None else None,
            waiting=0.0,
            kv_use=now.kv_use if now.servers_age_s is not None else None,
            age_s=now.servers_age_s,
        )
        pool = PoolSignals(
            arrived=round(self.arrived),
            answered=round(self.arrived),
            queue_wait_s_sum=self.wait_s,
            queue_wait_count=round(self.arrived),
            waiting=waiting,
            in_flight=replica.in_flight,
            replicas={"r1": replica},
        )
        return GatewaySignals(
            at_ms, self.started_ms, self.url, "eu", pool.arrived, 0.0, Obeyed(), pools={"chat-eu": pool}
        )


@dataclass
class Gateways:
    """All of them, and what the controller remembers of what they said."""

    each: list[Gateway]
    heard: Traffic = field(default_factory=Traffic)

    @classmethod
    def drawn(cls, draw: random.Random, ticks: int, longest: int) -> "Gateways":
        each = [Gateway(f"http://gateway-{number}") for number in range(draw.randint(1, 3))]
        for gateway in each:
            for event in EVENTS:
                if draw.random() < 0.3:
                    first = draw.randrange(1, ticks)
                    gateway.spans[event] = (first, first + draw.randint(1, longest))
            if draw.random() < 0.3:
                gateway.restarts = draw.randrange(1, ticks)
        return cls(each)

    def spans(self) -> list[tuple[int, int]]:
        return [span for gateway in self.each for span in gateway.spans.values()]

    def forget(self) -> None:
        """Another controller leads, which has heard nothing yet."""
        self.heard = Traffic()

    def serve(self, tick: int, first_ms: int, now: Moment, rounds: int) -> None:
        """The rounds of a tick, of which the first ends at `first_ms`."""
        self.heard = replace(self.heard, since_ms=first_ms - ROUND_S * 1_000)
        for number in range(rounds):
            self._round(tick, first_ms + number * ROUND_S * 1_000, now, is_first=number == 0)

    def _round(self, tick: int, at_ms: int, now: Moment, *, is_first: bool) -> None:
        serving = [each for each in self.each if not each.is_("dead", tick)]
        share = 1 / len(serving) if serving else 0.0
        reaching = [each.url for each in serving if not each.is_("cut_off", tick)]
        each_has, one_more = divmod(round(now.in_flight), max(1, len(reaching)))
        at_replicas = {url: each_has + (number < one_more) for number, url in enumerate(reaching)}
        each_waits, one_waits = divmod(round(now.waiting), max(1, len(serving)))
        waiting = {each.url: each_waits + (number < one_waits) for number, each in enumerate(serving)}
        answers: dict[str, GatewaySignals | str] = {}
        for gateway in self.each:
            if is_first and (gateway.restarts == tick or gateway.spans.get("dead", (0, -1))[1] == tick):
                gateway.start(at_ms)
            if gateway not in serving:
                if gateway.listed(tick):
                    answers[gateway.url] = f"{gateway.url}: connection refused"
                continue
            arrived = now.arrived_rps * share * ROUND_S
            gateway.arrived += arrived
            gateway.wait_s += arrived * now.queue_delay_s
            if gateway.is_("silent", tick):
                answers[gateway.url] = f"{gateway.url}: no answer within 1 s"
            else:
                answers[gateway.url] = gateway.signals(at_ms, now, waiting[gateway.url], at_replicas.get(gateway.url))
        self.heard = self.heard.next(at_ms, answers)

    def share_that_reaches(self, tick: int) -> float | None:
        """Of the requests, those that come through a gateway that reaches the pool, if its replicas are up. None: no gateway serves."""
        serving = [each for each in self.each if not each.is_("dead", tick)]
        return sum(not each.is_("cut_off", tick) for each in serving) / len(serving) if serving else None

    def facts(self, pool: str, now_ms: int) -> dict[str, Any]:
        """What the controller makes of it."""
        traffic = pool_traffic(self.heard, pool, now_ms)
        return {name: getattr(traffic, name) for name in OF_TRAFFIC}
