"""The gateway's application behind its own HTTP server, alone and with two workers, and behind granian: requests per second,
CPU and latency of a hit.

Two workers need cores of their own beside the load generator's, Redis' and the stand-ins'. Where there are only two in
all, the CPU of a request says whether a second worker costs anything; the requests per second are bounded by the machine.
"""

import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

from tests.bench.compared.gateways import Target, bed, weir
from tests.bench.figures import Figure, over_rounds, percentile, say
from tests.bench.loads.http_load import Http, closed_loop

ROUNDS = 7
ONE_S, MANY_S, WARM_S = 1.0, 2.0, 1.0
CONNECTIONS = 32

GRANIAN = (str(Path(sys.executable).with_name("granian")), "--interface", "rsgi", "--loop", "uvloop", "--no-ws")
GRANIAN = (*GRANIAN, "--workers", "1", "--http", "1", "--host", "127.0.0.1")
APP = "tests.bench.standins.edge:app"


def run() -> Iterator[Figure]:
    with ExitStack() as stack:
        where = bed(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-bench-edge-"))), stack)
        targets = [
            weir(where),
            weir(where, "workers_2", (), {"WEIR_GATEWAY_WORKERS": "2"}),
            weir(where, "granian", (*GRANIAN, "--runtime-mode", "st", APP)),
            weir(where, "granian_mt", (*GRANIAN, "--runtime-mode", "mt", APP)),
            weir(where, "granian_disconnects", (*GRANIAN, "--runtime-mode", "st", APP), {"BENCH_DISCONNECT": "1"}),
        ]
        serials = count()
        rounds: defaultdict[str, list[float]] = defaultdict(list)
        for target in targets:
            closed_loop(target.port, target.miss, CONNECTIONS, WARM_S, serials)
            closed_loop(target.port, _hit(target), 1, WARM_S)
        for number in range(ROUNDS):
            say(f"round {number + 1} of {ROUNDS}")
            for target in targets:
                name, hit = target.name, _hit(target)
                latencies = closed_loop(target.port, hit, 1, ONE_S).latencies_ns
                for share in (50, 99):
                    rounds[f"{name}.p{share}"].append(percentile(latencies, share / 100) / 1e6)
                before = target.child.cpu_ns()
                load = closed_loop(target.port, hit, CONNECTIONS, MANY_S)
                rounds[f"{name}.rps"].append(load.per_second)
                rounds[f"{name}.cpu"].append((target.child.cpu_ns() - before) / len(load.latencies_ns) / 1e3)
        for target in targets:
            name = target.name
            yield Figure(f"edge.{name}_hit_rps", over_rounds(rounds[f"{name}.rps"]), "req/s")
            yield Figure(f"edge.{name}_hit_cpu_us", over_rounds(rounds[f"{name}.cpu"]), "us/req")
            for share in (50, 99):
                yield Figure(f"edge.{name}_hit_p{share}_ms", over_rounds(rounds[f"{name}.p{share}"]), "ms")
            if name != "weir":
                ratios = [a / b for a, b in zip(rounds[f"{name}.rps"], rounds["weir.rps"], strict=True)]
                yield Figure(f"edge.{name}_hit_rps_ratio", over_rounds(ratios), "ratio", "the gateway's own server")
                ratios = [a / b for a, b in zip(rounds[f"{name}.cpu"], rounds["weir.cpu"], strict=True)]
                yield Figure(f"edge.{name}_hit_cpu_ratio", over_rounds(ratios), "ratio", "the gateway's own server")


def _hit(target: Target) -> Http:
    assert target.hit is not None
    return target.hit
