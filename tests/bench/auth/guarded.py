"""What the guard's patterns, on requests and answers, add to the gateway's figures: two gateways, one of them with the rule, in turn in
each round.

A stream's events come one at a time, as servers send them.
"""

import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

from inference.contract.snapshot import GuardRule
from tests.bench.compared.gateways import Target, bed, weir, weir_openai
from tests.bench.figures import Figure, over_rounds, percentile, say
from tests.bench.loads.http_load import Wire, closed_loop
from tests.bench.processes import free_port

ROUNDS = 15
SECONDS = 1.0
TOKENS, APART_S, STREAMS = 64, 0.002, 8
_RULE = GuardRule("bench/all", "bench", "patterns", "mask", answers=True, patterns=("card", "key", "mail"))


def run() -> Iterator[Figure]:
    with ExitStack() as stack:
        where = bed(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-bench-guard-"))), stack)
        port = free_port()
        where.start(
            "streams",
            [sys.executable, "-m", "tests.bench.standins.upstream", str(port), str(TOKENS), str(APART_S)],
            port,
        )
        pairs = [
            (weir(where, "off"), weir(where, "on", guards=(_RULE,))),
            (weir_openai(where, "openai-off", (), port), weir_openai(where, "openai-on", (_RULE,), port)),
        ]
        kinds = [
            ("hit", pairs[0], "hit", 1),
            ("miss", pairs[0], "miss", 1),
            ("openai", pairs[1], "miss", 1),
            ("stream", pairs[1], "stream", STREAMS),
        ]
        serials = {target.name: count() for pair in pairs for target in pair}
        rounds: defaultdict[str, list[float]] = defaultdict(list)
        for number in range(ROUNDS + 1):
            say(f"guard: round {number} of {ROUNDS}")
            for kind, pair, wire, connections in kinds:
                in_turn = pair if number % 2 else pair[::-1]  # who comes second may meet another machine
                seen = {it.name: _measured(it, getattr(it, wire), connections, serials) for it in in_turn}
                if number:  # the first is to warm them
                    for name, off, on in zip(("p50", "cpu"), *(seen[it.name] for it in pair), strict=True):
                        rounds[f"{kind}_{name}"].append(on / off)
        for name, ratios in rounds.items():
            yield Figure(f"guard.{name}_ratio", over_rounds(ratios), "ratio", "the same gateway without rules")


def _measured(target: Target, wire: Wire, connections: int, serials: dict[str, "count[int]"]) -> tuple[float, float]:
    """The median time of a request and the CPU of one, ns."""
    before_ns = target.child.cpu_ns()
    latencies = closed_loop(target.port, wire, connections, SECONDS, serials[target.name]).latencies_ns
    return percentile(latencies, 0.5), (target.child.cpu_ns() - before_ns) / len(latencies)
