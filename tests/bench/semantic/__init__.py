"""What the semantic cache serves of streams of which every right answer is known, and how much of it is wrong.

A request's candidate is a pair of texts. Words that the verifier knows nothing of are left to the evidence, which is harder than the
default, where they are refused (`default`: the paraphrases and the drift that are left then). The stream's middle brings the drift; the
adversary begins once answers are served. The upper 95 % is over runs: in 19 of 20 the share of wrong answers among those served is at most
that. The static threshold is the best in hindsight: of the grid's thresholds that would have kept the bound over the whole stream, that
with the most hits. DATA=FILE adds a stream of a file's pairs. Beside them: what a look-up costs, and how soon every gateway obeys a purge.
"""

import asyncio
import math
import os
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

from inference.core.semantic.evidence import ALPHA, THRESHOLDS, Evidence, Label, choose, sample_rate
from inference.core.semantic.vectors import CANARY, Canary, pack, similarity
from tests.bench.figures import Figure, say
from tests.bench.semantic import beside, lookups, purges
from tests.bench.semantic.pairs import Pair, PairsError, embed, of_file, pool

RUNS = 20
REQUESTS = 60_000
DELTAS = {"1": 0.01, "5": 0.05}
STREAMS = ("paraphrase", "opposite", "number", "entity", "order", "drift", "adversary")
_STEADY = ("paraphrase", "opposite", "number", "entity", "order", "default", "data")
_CHANGING = {"drift": "drift", "default_drift": "drift", "adversary": "adversary"}


class Outcome(NamedTuple):
    served: int
    wrong: int
    static: int  # hits of the best static threshold
    certified_after: int  # labels; 0: never
    changes: int

    @property
    def share(self) -> float:
        return self.wrong / self.served if self.served else 0.0


def run() -> Iterator[Figure]:
    file = os.environ.get("DATA")
    try:
        given = of_file(Path(file)) if file else ()
    except (PairsError, OSError) as error:
        sys.exit(str(error))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-bench-")))
        yield from asyncio.run(lookups.measure(folder, stack))
        yield from asyncio.run(beside.measure(folder, stack))
        yield from asyncio.run(purges.measure(folder, stack))
    for name, delta in DELTAS.items():
        upper, hits = dict[str, float](), dict[str, float]()
        labels = list[int]()
        for stream in (*STREAMS, "default", "default_drift", *(("data",) if given else ())):
            outcomes = [play(stream, delta, seed, given) for seed in range(RUNS)]
            upper[stream] = sorted(outcome.share for outcome in outcomes)[math.ceil(0.95 * RUNS) - 1]
            hits[stream] = median(outcome.served / max(1, outcome.static) for outcome in outcomes)
            labels += [outcome.certified_after for outcome in outcomes if outcome.certified_after]
            changes = sum(outcome.changes for outcome in outcomes)
            say(
                f"{stream}, {name} %: wrong {upper[stream]:.4f}, hits {hits[stream]:.2f} of static, {changes} changes in {RUNS} runs"
            )
            yield Figure(f"semantic.wrong_served_upper95_{stream}_{name}pct", upper[stream], "share", f"δ {delta}")
            if stream in _STEADY:
                yield Figure(f"semantic.hits_vs_static_{stream}_{name}pct", hits[stream], "ratio", "best in hindsight")
        yield Figure(
            f"semantic.wrong_served_upper95_{name}pct", max(upper.values()), "share", f"δ {delta}, the worst stream"
        )
        yield Figure(
            f"semantic.labels_until_certified_{name}pct", median(labels) if labels else 0, "labels", "of all streams"
        )
    listed = [pair for pair in pool("opposite") if pair.reason in ("opposite", "negation")]
    yield Figure("semantic.opposites_refused", len(listed) / len(pool("opposite")), "share", "four of five are listed")
    yield Figure(
        "semantic.swap_detected_after", max(map(_swapped, range(RUNS))), "requests", f"the latest of {RUNS} swaps"
    )


def play(stream: str, delta: float, seed: int, given: Sequence[Pair] = ()) -> Outcome:
    draw = random.Random(f"{stream} {seed}")
    allowed = ("",) if stream.startswith("default") else ("", "word")
    known = {reason: Evidence(delta, ALPHA / len(allowed)) for reason in allowed}
    served_of, served, wrong, labels, first = dict.fromkeys(allowed, 0), 0, 0, 0, 0
    shown = list[Pair]()
    for at in range(REQUESTS):
        begun = served > REQUESTS // 20 if stream == "adversary" else at > REQUESTS // 2
        pair = draw.choice(given) if stream == "data" else _next(stream, begun, draw)
        if pair.reason not in allowed:
            continue
        shown.append(pair)
        evidence = known[pair.reason]
        rate = sample_rate(served_of[pair.reason], delta)
        chosen = choose(pair.similarity, evidence.threshold, rate, draw.random())
        if chosen == "serve":
            served_of[pair.reason] += 1
            served += 1
            wrong += pair.wrong
        elif chosen == "label":
            if evidence.add(Label(pair.similarity, pair.wrong)):
                served_of[pair.reason] = 0
            labels += 1
            if evidence.threshold is not None and not first:
                first = labels
    return Outcome(served, wrong, _static(shown, delta), first, sum(it.changes for it in known.values()))


def _next(stream: str, begun: bool, draw: random.Random) -> Pair:
    """One in five requests is like nothing before, and three in ten are of the stream's kind. `begun`: what changes in it has changed."""
    chance, kind = draw.random(), "paraphrase"
    if chance < 0.2:
        kind = "unrelated"
    elif chance < 0.5:
        changing = _CHANGING.get(stream)
        kind = kind if stream == "default" or (changing and not begun) else changing or stream
    return draw.choice(pool(kind))


def _static(shown: list[Pair], delta: float) -> int:
    best = 0
    for threshold in THRESHOLDS:
        above = [pair.wrong for pair in shown if pair.similarity >= threshold]
        if sum(above) <= delta * len(above):
            best = max(best, len(above))
    return best


def _swapped(seed: int) -> int:
    """After how many look-ups the canary shows that the embedder is another."""
    canary, at, before = Canary(), 0, pack(embed(CANARY).tolist())
    swapped_at = random.Random(seed).randrange(100, 1000)
    while True:
        at += 1
        if canary.due() and similarity(embed(CANARY, seed=int(at > swapped_at)).tolist(), before) < Canary.SAME:
            return at - swapped_at
