"""How many spans a second end up durable and queryable, how late, and what one weighs; Phoenix and MLflow beside it.

A rate counts spans that a query finds at the end, over the time from the first byte sent until the last of them was found;
what was acknowledged and never came is a failure of the bench. The lag is of ledger rows at a pace of 40,000 spans/s, or at
four fifths of the full rate where that is less: at saturation it would measure the load generator's appetite. A peer that
acknowledges more than it stores is counted by what it has stored within its window. Every round starts a peer afresh, since
what it had queued would be counted into the next.
"""

import os
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from tests.bench import interleaved
from tests.bench.compared.trace_stores import Peer, mlflow, phoenix
from tests.bench.figures import Figure, over_rounds, percentile, say
from tests.bench.loads.otlp_load import Load, follow
from tests.bench.processes import BenchError
from tests.bench.telemetry import Telemetry, settle, telemetry

ROUNDS = int(os.environ.get("WEIR_BENCH_ROUNDS", "3"))
FULL_S, PACED_S, PEER_S, PEER_DRAIN_S = 15.0, 20.0, 15.0, 15.0
PACE_SPANS_PER_S = 40_000
PEER_PACE_SPANS_PER_S = 2_000  # several times what they keep; at full load Phoenix stores next to nothing
PEERS: dict[str, Callable[[Path, ExitStack], Peer | None]] = {"phoenix": phoenix, "mlflow": mlflow}

Rounds = dict[str, list[float]]


def run() -> Iterator[Figure]:
    rounds: Rounds = defaultdict(list)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-bench-")))
        weir = telemetry(folder, stack)
        Load(weir.port).run(2.0)
        _all_queryable(weir.stored)
        for number in range(ROUNDS):
            say(f"round {number + 1} of {ROUNDS}: weir at full rate")
            _full(rounds, weir)
            for name, start in PEERS.items():
                say(f"round {number + 1} of {ROUNDS}: {name}")
                _peer(rounds, name, start)
        pace = min(PACE_SPANS_PER_S, 0.8 * over_rounds(rounds["weir"]))
        say(f"weir at {pace:.0f} spans/s")
        lags = _paced(rounds, weir, pace)
        settle(weir.store)
        spans = weir.distinct()
        rounds["bytes"].append(sum(weir.bytes_on_disk().values()) / spans)
        rounds["bytes_spans"].append(weir.bytes_on_disk()["spans"] / spans)
        yield from interleaved.run(weir)
    yield from _figures({name: over_rounds(values) for name, values in rounds.items()}, lags)


def _full(rounds: Rounds, weir: Telemetry) -> None:
    before, cpu, began = weir.stored(), weir.child.cpu_ns(), time.monotonic()
    sent = Load(weir.port).run(FULL_S)
    _all_queryable(lambda: weir.stored() - before, sent.spans)
    rounds["weir"].append(sent.spans / (time.monotonic() - began))
    rounds["weir_acknowledged"].append(sent.spans / sent.seconds)
    rounds["weir_cpu"].append((weir.child.cpu_ns() - cpu) / sent.spans)


def _all_queryable(count: Callable[[], int], spans: int | None = None, patience_s: float = 30) -> None:
    """Return once `count` finds `spans`; without a number, once it finds no more than 3 s before.

    Raises BenchError when acknowledged spans are missing and none came for `patience_s`.
    """
    found, grown = -1, time.monotonic()
    while spans is None or found < spans:
        now = count()
        if now > found:
            found, grown = now, time.monotonic()
        elif time.monotonic() - grown > (3 if spans is None else patience_s):
            if spans is None:
                return
            raise BenchError(
                f"of {spans} acknowledged spans {found} are queryable, and no more came for {patience_s:.0f} s"
            )
        time.sleep(0.2)


def _paced(rounds: Rounds, weir: Telemetry, spans_per_s: float) -> list[float]:
    load, done = Load(weir.port), threading.Event()
    with ThreadPoolExecutor(1) as watching:
        lags = watching.submit(follow, load.sent, weir.present, done)
        try:
            sent = load.run(PACED_S, spans_per_s)
        finally:
            done.set()
        rounds["offered"].append(sent.spans / sent.seconds)
        return lags.result()


def _peer(rounds: Rounds, name: str, start: Callable[[Path, ExitStack], Peer | None]) -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"weir-bench-{name}-")))
        try:
            peer = start(folder, stack)
            if peer is None:
                return
            first = Load(peer.port, headers=peer.headers, senders=1).run(
                0.1
            )  # what it does only once is not its ingest
            _all_queryable(peer.stored, first.spans, patience_s=60)
            before, began = peer.stored(), time.monotonic()
            sent = Load(peer.port, headers=peer.headers).run(PEER_S, PEER_PACE_SPANS_PER_S)
            while (stored := peer.stored() - before) < sent.spans:
                if time.monotonic() > began + sent.seconds + PEER_DRAIN_S:
                    break
                time.sleep(0.2)
            rounds[name].append(stored / (time.monotonic() - began))
            say(f"{name}: {sent.spans} spans acknowledged, {sent.refused} refusals, {stored} stored")
        except (BenchError, OSError) as error:
            say(f"{name} is left out of this round: {error}")


def _figures(measured: dict[str, float], lags: list[float]) -> Iterator[Figure]:
    yield Figure("ingest.spans_per_s", measured["weir"], "spans/s", "durable and queryable, full load")
    yield Figure("ingest.acknowledged_spans_per_s", measured["weir_acknowledged"], "spans/s", "durable, full load")
    yield Figure("ingest.cpu_us_per_span", measured["weir_cpu"] / 1e3, "us/span", "all processes of telemetry")
    milliseconds = [int(lag * 1e3) for lag in lags]
    offered = f"{measured['offered']:.0f} spans/s offered"
    for share in (50, 95):
        yield Figure(f"ingest.lag_p{share}_s", percentile(milliseconds, share / 100) / 1e3, "s", offered)
    for name in PEERS:
        if name in measured:
            yield Figure(
                f"ingest.{name}_spans_per_s",
                measured[name],
                "spans/s",
                f"durable and queryable, {PEER_PACE_SPANS_PER_S} spans/s offered",
            )
            if measured[name]:
                yield Figure(f"ingest.vs_{name}_ratio", measured["weir"] / measured[name], "ratio", name)
    yield Figure("store.bytes_per_span", measured["bytes"], "B/span", "spans and requests tables with indexes")
    yield Figure("store.spans_table_bytes_per_span", measured["bytes_spans"], "B/span", "spans table alone")
