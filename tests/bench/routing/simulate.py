"""Runs a workload against a pool of simulated servers behind several gateways, in virtual time."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import exp, log

from inference.contract.failure_rules import RETRIES
from inference.core.routing.need import Need
from inference.core.routing.prefix import Prompt, read_prompt
from inference.core.routing.retry import RetryBudget
from tests.bench.routing.engine import Clock, Server, Work
from tests.bench.routing.policies import Policy, Seen


@dataclass(frozen=True, slots=True)
class Arrival:
    at_s: float
    gateway: int
    prompt_tokens: int
    prompt: Prompt
    output_tokens: int
    most_output: int


@dataclass(frozen=True, slots=True)
class Workload:
    """`prefixes` system prompts, of which few are common (Zipf), each of 512 to 4,096 tokens; behind it a question of its own."""

    requests_per_s: float
    duration_s: float
    prefixes: int = 60
    gateways: int = 3

    def arrivals(self, seed: int) -> list[Arrival]:
        rng = random.Random(seed)
        texts = [rng.randbytes(4 * rng.randrange(512, 4096)) for _ in range(self.prefixes)]
        weights = [1 / (1 + rank) for rank in range(self.prefixes)]
        out: list[Arrival] = []
        at_s = 0.0
        while True:
            at_s += rng.expovariate(self.requests_per_s)
            if at_s > self.duration_s:
                return out
            prefix = rng.choices(texts, weights)[0]
            question = rng.randbytes(4 * int(min(2000, exp(rng.gauss(log(150), 0.8)))))
            output = max(2, int(min(1000, exp(rng.gauss(log(150), 0.6)))))
            tokens = (len(prefix) + len(question)) // 4
            prompt = read_prompt("m", "t", (prefix, question))
            out.append(Arrival(at_s, rng.randrange(self.gateways), tokens, prompt, output, 1024))


@dataclass(slots=True)
class Outcome:
    """Times in seconds; `errors` are when a client got one, and why."""

    e2e_s: list[float] = field(default_factory=list)
    ttft_s: list[float] = field(default_factory=list)
    errors: list[tuple[float, str]] = field(default_factory=list)
    ejected: list[tuple[float, int]] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    hit_ratio: float = 0.0
    busy: int = 0  # answers of servers without room


class _Gateway:
    def __init__(
        self, clock: Clock, servers: Sequence[Server], policy: Policy, outcome: Outcome, after_s: float
    ) -> None:
        self.clock, self.servers, self.policy, self.outcome = clock, servers, policy, outcome
        self.replicas = [Seen(number) for number in range(len(servers))]
        self._after_s = after_s
        self._budget = RetryBudget()
        self._in_flight = 0
        for number in range(len(servers)):
            clock.after(random.Random(number).random() * policy.scrape_s, self._scrape, number)

    def _scrape(self, number: int) -> None:
        load = self.replicas[number].load
        self.clock.after(0.003, load.sampled, self.servers[number].signals(), load.own, load.pending)
        self.clock.after(self.policy.scrape_s, self._scrape, number)

    def serve(self, arrival: Arrival, tried: tuple[Seen, ...] = ()) -> None:
        clock, outcome = self.clock, self.outcome
        need = Need(arrival.prompt_tokens, *arrival.prompt, arrival.most_output)
        replica = self.policy.choose(self.replicas, need, tried, clock.now_s) if len(tried) < RETRIES.attempts else None
        if replica is None or (tried and not self._budget.take(self._in_flight)):
            outcome.errors.append((clock.now_s, "no replica" if replica is None else "no retry left"))
            return
        self._in_flight += 1
        outcome.sent[replica.number] += 1
        call = self.policy.begin(replica, need, clock.now_s)

        def first_token() -> None:
            if tried:
                self._budget.give_back()
            call.first_token(clock.now_s)
            if arrival.at_s >= self._after_s:
                outcome.ttft_s.append(clock.now_s - arrival.at_s)

        def ended() -> None:
            self._in_flight -= 1
            call.ended(clock.now_s, arrival.output_tokens)
            replica.health.call_answered(clock.now_s)
            if arrival.at_s >= self._after_s:
                outcome.e2e_s.append(clock.now_s - arrival.at_s)

        def failed(why: str) -> None:
            self._in_flight -= 1
            if tried:
                self._budget.give_back()
            call.ended(clock.now_s)
            if why == "busy":
                outcome.busy += 1
                replica.health.call_busy(clock.now_s)
            elif replica.health.call_failed(clock.now_s):
                outcome.ejected.append((clock.now_s, replica.number))
            self.serve(arrival, (*tried, replica))

        work = Work(arrival.prompt_tokens, arrival.prompt.blocks, arrival.output_tokens, first_token, ended, failed)
        clock.after(0.001, self.servers[replica.number].take, work)


def simulate(
    arrivals: Sequence[Arrival],
    gateways: int,
    make: Callable[[], Policy],
    servers: Callable[[Clock], list[Server]],
    *,
    after_s: float,
) -> Outcome:
    """Let `make()`'s policy serve `arrivals`. Requests that arrive before `after_s` warm the caches and are not counted."""
    clock, outcome = Clock(), Outcome()
    pool = servers(clock)
    outcome.sent = [0] * len(pool)
    fronts = [_Gateway(clock, pool, make(), outcome, after_s) for _ in range(gateways)]
    for arrival in arrivals:
        clock.after(arrival.at_s, fronts[arrival.gateway % gateways].serve, arrival)

    def forget_hits() -> None:
        for server in pool:
            server.hits = server.asked = 0

    clock.after(after_s, forget_hits)
    clock.run(arrivals[-1].at_s + 120)
    asked = sum(server.asked for server in pool)
    outcome.hit_ratio = sum(server.hits for server in pool) / asked if asked else 0.0
    return outcome
