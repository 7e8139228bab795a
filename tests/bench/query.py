"""How long the questions of the pages take, with 1 and with 10 million spans in the store (5 spans a request, over 24 hours).

Each question is asked as its page asks it, through the store's own reader, over HTTP from another process; kinds of question are
interleaved. A figure without a suffix is at 10 million spans, `_1m` at one million, `_growth` the ratio of the two.
"""

import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from controlplane.telemetry.core.query_types import Dimension, Filters, Window
from controlplane.telemetry.ledger.attribute_index import written
from controlplane.telemetry.query.core.timerange import step_ns
from controlplane.telemetry.store import Store
from tests.bench.figures import Figure, percentile, say
from tests.bench.processes import BenchError, start
from tests.support.telemetry.synthetic import SPANS_PER_REQUEST, load

SIZES = {"_1m": 1_000_000, "": 10_000_000}
ROUNDS = 20
PER_ROUND = {"trace": 10, "filter": 3, "attribute": 3, "panel_24h": 1, "panel_24h_filtered": 1, "explain": 1}
TABLES = ("spans", "requests", "touched", "ranked", "ranks")
DAY_NS = 86_400 * 10**9
FILTERABLE: tuple[Dimension, ...] = ("model", "tier", "tenant", "cache", "replica", "prompt_bucket", "status")

Questions = dict[str, Callable[[], object]]


def run() -> Iterator[Figure]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-bench-")))
        store = Store(_serve(folder, stack))
        pages = stack.enter_context(ThreadPoolExecutor(8))
        to_ns = time.time_ns()
        measured: dict[str, dict[str, float]] = defaultdict(dict)
        for suffix, spans in SIZES.items():
            say(f"loading {spans:,} spans")
            began = time.monotonic()
            for table in TABLES:  # each size is written in order of time, as traffic is
                store.command(f"TRUNCATE TABLE {table}")
            load(store, spans // SPANS_PER_REQUEST, from_ns=to_ns - DAY_NS, to_ns=to_ns, seed=spans)
            say(f"{spans / (time.monotonic() - began):,.0f} spans/s made and inserted")
            _settle(store)
            began = time.monotonic()
            half_hours = store.presort(to_ns, limit_s=600)
            say(f"{half_hours} half hours sorted in {time.monotonic() - began:.1f} s")
            _settle(store)
            for name, p95_ms in _ask(_questions(store, Window(to_ns - DAY_NS, to_ns), pages)).items():
                measured[name][suffix] = p95_ms
                yield Figure(f"query.{name}_p95_ms{suffix}", p95_ms, "ms", f"{spans:,} spans")
        for name, p95 in measured.items():
            yield Figure(f"query.{name}_growth", p95[""] / p95["_1m"], "ratio", "from 1 to 10 million spans")
        size = store.rows("SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = currentDatabase()")
        yield Figure("query.store_bytes_per_span", float(size[0][0]) / spans, "B/span", "synthetic, 10 million spans")


def _serve(folder: Path, stack: ExitStack) -> str:
    """The embedded store alone; its DSN, which it prints once it serves."""
    child = start(
        "store", [sys.executable, "-m", "controlplane.telemetry.store", "--home", str(folder / "home")], folder
    )
    stack.push(child.ended)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and child.process.poll() is None:
        for line in child.tail().splitlines():
            if line.startswith("clickhouse://"):
                return line
        time.sleep(0.1)
    raise BenchError(f"the store did not serve within 60 s:\n{child.tail()}")


def _settle(store: Store, patience_s: float = 120) -> None:
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline and store.rows("SELECT count() FROM system.merges")[0][0]:
        time.sleep(0.5)


def _questions(store: Store, day: Window, pages: Executor) -> Questions:
    chance = random.Random(5)
    traces = [str(row[0]) for row in store.rows("SELECT lower(hex(trace_id)) FROM requests ORDER BY rand() LIMIT 500")]
    values = {dimension: store.values(day, dimension) for dimension in FILTERABLE}
    attributes = [
        f"{key}={text}"
        for trace_id in chance.sample(traces, 50)
        for span in store.trace(trace_id)
        for key, value in span.attributes.items()
        if (text := written(key, value))
    ]

    def filters() -> Filters:
        chosen = chance.sample(FILTERABLE, chance.choice((1, 1, 2)))
        return {dimension: (chance.choice(values[dimension]),) for dimension in chosen}

    def trace() -> object:
        return store.traced(chance.choice(traces))

    def filtered() -> object:
        return store.requests(day, filters(), order=chance.choice(("slowest", "newest")))

    def attribute() -> object:
        return store.requests(
            day, {"attribute": (chance.choice(attributes),)}, order=chance.choice(("slowest", "newest"))
        )

    def panel(chosen: Filters) -> object:
        known = store.presorted(day, chosen)
        report = pages.submit(store.latency, day, chosen, known)
        return store.latency_series(day, chosen, step_ns(day) // 10**9, known), report.result()

    return {
        "trace": trace,
        "filter": filtered,
        "attribute": attribute,
        "panel_24h": lambda: panel({}),
        "panel_24h_filtered": lambda: panel(
            {"tier": ("standard",)}
        ),  # seven in ten requests, which no sorted half hour has apart
        "explain": lambda: store.explain(day),
    }


def _ask(questions: Questions) -> dict[str, float]:
    """p95 by question, ms; the first answer of each is not counted, but said of the panel, which keeps what it has read."""
    took_us: dict[str, list[int]] = defaultdict(list)
    first_ms = {}
    for name, ask in questions.items():
        began = time.perf_counter_ns()
        ask()
        first_ms[name] = (time.perf_counter_ns() - began) / 1e6
    say(f"the first panel took {first_ms['panel_24h']:.0f} ms")
    for _ in range(ROUNDS):
        for name, ask in questions.items():
            for _ in range(PER_ROUND[name]):
                began = time.perf_counter_ns()
                ask()
                took_us[name].append((time.perf_counter_ns() - began) // 1000)
    return {name: percentile(values, 0.95) / 1e3 for name, values in took_us.items()}
