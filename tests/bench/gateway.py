"""The gateway beside a bare proxy and LiteLLM: what each adds to a request, how many it carries, what one costs.

Rounds are interleaved (every target in each round) so that noise hits all alike; a figure is the median over rounds.
`added` is the time through a target minus the time of its own upstream spoken to directly by the same load generator,
at the same percentile: HTTP for the proxies, raw gRPC frames for the gateway, so that its gRPC client counts in full.
`openai` is the gateway before the proxies' own upstream, over OpenAI's API.
A hit calls no upstream: the cheapest HTTP answer there is (the floor) is taken off instead. Hits are all of one request, which the gateway
answers from its copies; redis_hits are those of requests that were misses before, one after the other, so that hardly any has a copy.
"""

import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path

from tests.bench.compared.gateways import MODEL, TOKENS, Bed, Target, bare, bed, body, litellm, weir, weir_openai
from tests.bench.figures import Figure, over_rounds, percentile, say
from tests.bench.loads.grpc_wire import GrpcInfer
from tests.bench.loads.http_load import Http, Wire, closed_loop, first_tokens
from tests.bench.processes import BenchError, Child

ROUNDS = 5
ONE_S, MANY_S, WARM_S = 1.5, 2.0, 1.0
CONNECTIONS = 32

Rounds = dict[str, list[float]]


def run() -> Iterator[Figure]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-bench-")))
        where = bed(folder, stack)
        targets = [target for target in (_weir(where), _openai(where), bare(where), _litellm(where)) if target]
        rounds: Rounds = defaultdict(list)
        serials = {target.name: count() for target in targets}
        for target in targets:
            say(f"warming {target.name}")
            first_tokens(target.port, target.stream, WARM_S, serials[target.name])
            closed_loop(target.port, target.miss, CONNECTIONS, WARM_S, serials[target.name])
            if target.hit:
                closed_loop(target.port, target.hit, 1, WARM_S)
        for number in range(ROUNDS):
            say(f"round {number + 1} of {ROUNDS}")
            _direct(rounds, where)
            for target in targets:
                _measure(rounds, target, serials[target.name])
        yield from _figures({name: over_rounds(values) for name, values in rounds.items()})


def _weir(where: Bed) -> Target | None:
    try:
        return weir(where)
    except BenchError as error:
        say(f"the gateway is not measured: {error}")
        return None


def _openai(where: Bed) -> Target | None:
    """Without hits, which are those of `weir`."""
    try:
        return replace(weir_openai(where), hit=None)
    except BenchError as error:
        say(f"the gateway before OpenAI's API is not measured: {error}")
        return None


def _litellm(where: Bed) -> Target | None:
    try:
        return litellm(where)
    except BenchError as error:
        say(f"LiteLLM did not start, its figures are left out: {error}")
        return None


def _direct(rounds: Rounds, where: Bed) -> None:
    """The upstreams themselves: what is taken off, and the floor."""
    http = Http(lambda serial: body(serial))
    stream = Http(lambda serial: body(serial, stream=True))
    grpc = GrpcInfer(MODEL, TOKENS)
    for name, port, wire in (("direct_http", where.upstream_port, http), ("direct_grpc", where.triton_port, grpc)):
        _latency(rounds, name, port, wire, count())
        rounds[f"{name}_rps"].append(closed_loop(port, wire, CONNECTIONS, 1.0).per_second)
    rounds["direct_http_ttft"].append(percentile(first_tokens(where.upstream_port, stream, 0.5), 0.5))
    rounds["direct_grpc_ttft"].append(rounds["direct_grpc_p50"][-1])  # the whole answer arrives in one write


def _measure(rounds: Rounds, target: Target, serials: "count[int]") -> None:
    for kind in ("miss", "hit", "redis_hit"):
        wire = {"miss": target.miss, "hit": target.hit}.get(kind)
        if kind == "redis_hit" and target.name == "weir":
            wire = _again(target.miss, next(serials))
        if wire is None:
            continue
        name = f"{target.name}.{kind}"
        _latency(rounds, name, target.port, wire, serials)
        for share in ("p50", "p99"):
            direct = target.direct if kind == "miss" else "direct_http"
            added = rounds[f"{name}_{share}"][-1] - rounds[f"{direct}_{share}"][-1]
            rounds[f"{name}_{share}_added"].append(added)
        _throughput(rounds, name, target.child, target.port, wire, serials)
    ttft = percentile(first_tokens(target.port, target.stream, ONE_S, serials), 0.5)
    rounds[f"{target.name}.ttft_added"].append(ttft - rounds[f"{target.direct}_ttft"][-1])


def _again(miss: Http, sent: int) -> Http:
    """The first `sent` requests in turn."""
    turn = count()
    return replace(miss, body=lambda _: miss.body(next(turn) % sent))


def _latency(rounds: Rounds, name: str, port: int, wire: Wire, serials: "count[int]") -> None:
    latencies = closed_loop(port, wire, 1, ONE_S, serials).latencies_ns
    rounds[f"{name}_p50"].append(percentile(latencies, 0.5))
    rounds[f"{name}_p99"].append(percentile(latencies, 0.99))


def _throughput(rounds: Rounds, name: str, child: Child, port: int, wire: Wire, serials: "count[int]") -> None:
    before = child.cpu_ns()
    load = closed_loop(port, wire, CONNECTIONS, MANY_S, serials)
    rounds[f"{name}_rps"].append(load.per_second)
    rounds[f"{name}_cpu"].append((child.cpu_ns() - before) / len(load.latencies_ns))


def _figures(measured: dict[str, float]) -> Iterator[Figure]:
    prefixes = {"weir": "gateway", "openai": "gateway.openai", "bare": "gateway.bare", "litellm": "gateway.litellm"}
    for target, prefix in prefixes.items():
        for kind in ("miss", "hit", "redis_hit"):
            name = f"{target}.{kind}"
            if f"{name}_rps" not in measured:
                continue
            for share in ("p50", "p99"):
                yield Figure(
                    f"{prefix}.{kind}_{share}_added_ms", measured[f"{name}_{share}_added"] / 1e6, "ms", "direct"
                )
            yield Figure(f"{prefix}.{kind}_rps", measured[f"{name}_rps"], "req/s")
            yield Figure(f"{prefix}.{kind}_cpu_us", measured[f"{name}_cpu"] / 1e3, "us/req")
        if f"{target}.ttft_added" in measured:
            yield Figure(f"{prefix}.added_ttft_ms", measured[f"{target}.ttft_added"] / 1e6, "ms", "direct")
    for name, label in (("direct_http", "floor_http"), ("direct_grpc", "floor_grpc")):
        yield Figure(f"gateway.{label}_p50_ms", measured[f"{name}_p50"] / 1e6, "ms")
        yield Figure(f"gateway.{label}_rps", measured[f"{name}_rps"], "req/s")
    if "weir.miss_rps" not in measured:
        return
    if "openai.miss_p50_added" in measured:
        ratio = measured["openai.miss_p50_added"] / measured["bare.miss_p50_added"]
        yield Figure("gateway.openai_p50_ratio", ratio, "ratio", "bare granian + aiohttp proxy")
    for kind in ("hit", "miss", "redis_hit"):
        ratio = measured[f"weir.{kind}_p50_added"] / measured["bare.miss_p50_added"]
        yield Figure(f"gateway.{kind}_p50_ratio", ratio, "ratio", "bare granian + aiohttp proxy")
        ratio = measured[f"weir.{kind}_p99_added"] / measured["bare.miss_p99_added"]
        yield Figure(f"gateway.{kind}_p99_ratio", ratio, "ratio", "bare granian + aiohttp proxy")
        ratio = measured[f"weir.{kind}_cpu"] / measured["bare.miss_cpu"]
        yield Figure(f"gateway.{kind}_cpu_ratio", ratio, "ratio", "bare granian + aiohttp proxy")
        if f"litellm.{kind}_rps" in measured:
            ratio = measured[f"weir.{kind}_rps"] / measured[f"litellm.{kind}_rps"]
            yield Figure(f"gateway.{kind}_rps_vs_litellm", ratio, "ratio", "LiteLLM proxy, one worker")
