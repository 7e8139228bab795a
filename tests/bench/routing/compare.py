"""Weir's choice of a replica against round-robin, least in flight and llm-d's published scorer, on simulated servers.

Eight servers of four speeds, three gateways that know nothing of each other, and prompts that share their beginnings, in virtual
time. In the second scenario a server fails every request at once for a while; in the third the servers are full now and
then. All ways handle failures as the gateway does, so that only the choice differs.
"""

from collections.abc import Callable, Iterator, Sequence
from statistics import mean

from tests.bench.figures import Figure, say
from tests.bench.routing.engine import Clock, Server
from tests.bench.routing.policies import LeastInFlight, LlmD, Policy, RoundRobin, Weir
from tests.bench.routing.simulate import Arrival, Outcome, Workload, simulate

SLOWNESS = (1.0, 1.0, 1.0, 1.0, 1.5, 1.5, 0.7, 3.0)
RATES = (20.0, 25.0, 30.0)
SEEDS = (1, 2, 3)
GATEWAYS = 3
WARM_S, FAILS_S, WELL_S, ENDS_S = 15.0, 30.0, 60.0, 90.0
FAILING = 1
NOTICED_S = 2.0
OTHERS: tuple[type[RoundRobin | LeastInFlight | LlmD], ...] = (RoundRobin, LeastInFlight, LlmD)


def run() -> Iterator[Figure]:
    loads = [Workload(rate, ENDS_S, gateways=GATEWAYS).arrivals(seed) for rate in RATES for seed in SEEDS]
    weir = _outcomes(Weir, loads, _servers)
    others = {make.name: _outcomes(make, loads, _servers) for make in OTHERS}
    alone = _outcomes(LlmD, loads, _servers, gateways=1)
    for name, outcomes in {"weir": weir, **others, "llm_d as the only picker": alone}.items():
        say(f"{name}: {_summary(outcomes)}")
    yield from _ratios("routing.p95_vs_best", [outcome.e2e_s for outcome in weir], others, "e2e_s")
    yield from _ratios("routing.ttft_p95_vs_best", [outcome.ttft_s for outcome in weir], others, "ttft_s")
    llm_d = mean(outcome.hit_ratio for outcome in others["llm_d"])
    only = mean(outcome.hit_ratio for outcome in alone)
    against = f"llm-d {llm_d:.3f} behind as many gateways, {only:.3f} as the only picker"
    yield Figure("routing.prefix_hit_ratio", mean(outcome.hit_ratio for outcome in weir), "share", against)
    yield from _failing(loads)
    yield from _full()


def _failing(loads: Sequence[Sequence[Arrival]]) -> Iterator[Figure]:
    """One server fails everything at once from `FAILS_S` to `WELL_S`."""
    weir = _outcomes(Weir, loads, _failing_servers)
    others = {make.name: _outcomes(make, loads, _failing_servers) for make in OTHERS}
    for name, outcomes in {"weir": weir, **others}.items():
        say(f"{name}, one server fails: {_summary(outcomes)}")
    yield from _ratios("routing.failing_p95_vs_best", [outcome.e2e_s for outcome in weir], others, "e2e_s")
    late = sum(at_s > FAILS_S + NOTICED_S for outcome in weir for at_s, _ in outcome.errors)
    errors = sum(len(outcome.errors) for outcome in weir)
    yield Figure("routing.errors_while_noticed", errors - late, "requests", f"of {_requests(loads)}")
    yield Figure("routing.errors_after_noticed", late, "requests", f"later than {NOTICED_S:g} s after the failure")


def _full() -> Iterator[Figure]:
    """Servers that take few requests at once and answer "busy" to more."""
    loads = [Workload(45.0, ENDS_S, gateways=GATEWAYS).arrivals(seed) for seed in SEEDS]
    weir = _outcomes(Weir, loads, _small_servers)
    busy = sum(outcome.busy for outcome in weir)
    errors = sum(len(outcome.errors) for outcome in weir)
    say(f"full servers: {busy} busy answers, {errors} of {_requests(loads)} requests found no room")
    yield Figure(
        "routing.ejected_for_being_full", sum(len(outcome.ejected) for outcome in weir), "servers", f"{busy} busy"
    )


def _servers(clock: Clock) -> list[Server]:
    return [Server(clock, slowness) for slowness in SLOWNESS]


def _failing_servers(clock: Clock) -> list[Server]:
    servers = _servers(clock)
    clock.after(FAILS_S, setattr, servers[FAILING], "failing", True)
    clock.after(WELL_S, setattr, servers[FAILING], "failing", False)
    return servers


def _small_servers(clock: Clock) -> list[Server]:
    return [Server(clock, slowness, most_sequences=8, most_waiting=2) for slowness in SLOWNESS]


def _outcomes(
    make: Callable[[], Policy],
    loads: Sequence[Sequence[Arrival]],
    servers: Callable[[Clock], list[Server]],
    gateways: int = GATEWAYS,
) -> list[Outcome]:
    return [simulate(arrivals, gateways, make, servers, after_s=WARM_S) for arrivals in loads]


def _ratios(
    name: str, ours: Sequence[Sequence[float]], others: dict[str, list[Outcome]], times: str
) -> Iterator[Figure]:
    """The mean over the runs of the p95, over that of the best other."""
    p95_s = {other: _p95([getattr(outcome, times) for outcome in outcomes]) for other, outcomes in others.items()}
    best = min(p95_s, key=lambda other: p95_s[other])
    yield Figure(name, _p95(ours) / p95_s[best], "ratio", f"{_p95(ours):.3f} s over {p95_s[best]:.3f} s of {best}")


def _p95(runs: Sequence[Sequence[float]]) -> float:
    return mean(sorted(times_s)[int(0.95 * len(times_s))] for times_s in runs)


def _summary(outcomes: Sequence[Outcome]) -> str:
    hits, errors = mean(outcome.hit_ratio for outcome in outcomes), sum(len(outcome.errors) for outcome in outcomes)
    e2e_s, ttft_s = _p95([outcome.e2e_s for outcome in outcomes]), _p95([outcome.ttft_s for outcome in outcomes])
    ejected = sum(len(outcome.ejected) for outcome in outcomes)
    return f"p95 {e2e_s:.2f} s, TTFT p95 {ttft_s:.3f} s, prefix hits {hits:.3f}, {errors} errors, {ejected} ejections"


def _requests(loads: Sequence[Sequence[Arrival]]) -> int:
    return sum(map(len, loads))
