"""How long the questions of the pages take, with 1 and with 10 million spans in the store (5 spans a request, over 24 hours).

Each question is asked as its page asks it, through the store's own reader, over HTTP from another process; kinds of question are
interleaved. A figure without a suffix is at 10 million spans, `_1m` at one million, `_growth` the ratio of the two.
"""

import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from controlplane.telemetry.core.query_types import Dimension, Filters, Window
from controlplane.telemetry.ledger.attribute_index import written
from controlplane.telemetry.query.core.timerange import step_ns
from controlplane.telemetry.store import Store
from controlplane.telemetry.store.client import READ_SETTINGS
from controlplane.telemetry.store.embedded.statement import Query
from controlplane.telemetry.store.maintenance.rollups import together
from controlplane.telemetry.store.tiers import KEPT_H
from inference.contract.stages import STAGES
from tests.bench.figures import Figure, percentile, say
from tests.bench.loads.synthetic import SPANS_PER_REQUEST, load
from tests.bench.processes import BenchError, start
from tests.bench.telemetry import settle

SIZES = {"_1m": 1_000_000, "": 10_000_000}
ROUNDS = 20
PER_ROUND = {
    "empty": 10, "trace": 10, "filter": 3, "attribute": 3, "panel_24h": 1, "panel_24h_again": 1, "panel_24h_filtered": 1, "explain": 1,
    "scan": 1, "scan_filtered": 1, "scan_explain": 1,
}  # fmt: skip
SCANS = ("empty", "scan", "scan_filtered", "scan_explain")
"""What others are compared with: an empty question, and the plain SQL that a page's figures would take on the requests."""
RATIOS = {
    "trace_vs_empty": ("trace", "empty", "SELECT 1 through the same client"),
    "panel_24h_vs_scan": ("panel_24h", "scan", "the same figures in plain SQL on the requests"),
    "panel_24h_filtered_vs_scan": ("panel_24h_filtered", "scan_filtered", "the same figures in plain SQL on the requests"),
    "explain_vs_scan": ("explain", "scan_explain", "counts and sums by value, in and out of the slowest 5 %, in plain SQL"),
}  # fmt: skip
MONTH_REQUESTS = 60_000_000
MONTH_DAYS = 30
MONTH_ROUNDS = 20
TABLES = (
    "spans",
    "requests",
    "request_samples",
    "rollup_touched",
    "rollup_builds",
    "rollups",
    "rollup_slices",
    "demand",
)
DAY_NS = 86_400 * 10**9
FILTERABLE: tuple[Dimension, ...] = ("model", "tier", "tenant", "cache", "replica", "prompt_bucket", "status")

Questions = dict[str, Callable[[], object]]


def run() -> Iterator[Figure]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="weir-bench-")))
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
            settle(store)
            began = time.monotonic()
            say(f"{roll_up(store)} stretches rolled up in {time.monotonic() - began:.1f} s")
            settle(store)
            took = _ask(_questions(store, Window(to_ns - DAY_NS, to_ns), pages))
            for name, p95_ms in ((name, percentile(us, 0.95) / 1e3) for name, us in took.items() if name not in SCANS):
                measured[name][suffix] = p95_ms
                yield Figure(f"query.{name}_p95_ms{suffix}", p95_ms, "ms", f"{spans:,} spans")
            for name, (of, to, against) in RATIOS.items():
                yield Figure(f"query.{name}{suffix}", median(took[of]) / median(took[to]), "ratio", against)
        for name, p95 in measured.items():
            yield Figure(f"query.{name}_growth", p95[""] / p95["_1m"], "ratio", "from 1 to 10 million spans")
        size = store.rows("SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = currentDatabase()")
        yield Figure("query.store_bytes_per_span", float(size[0][0]) / spans, "B/span", "synthetic, 10 million spans")
        yield from _month(store, to_ns, pages)
    yield from _empty()


def _serve(folder: Path, stack: ExitStack) -> str:
    """The embedded store alone; its DSN, which it prints once it serves."""
    command = [sys.executable, "-m", "controlplane.telemetry.store", "--home", str(folder / "home")]
    child = start(stack, "store", command, folder)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and child.process.poll() is None:
        for line in child.tail().splitlines():
            if line.startswith("clickhouse://"):
                return line
        time.sleep(0.1)
    raise BenchError(f"the store did not serve within 60 s:\n{child.tail()}")


def _questions(store: Store, day: Window, pages: Executor) -> Questions:
    chance = random.Random(5)
    traces = [str(row[0]) for row in store.rows("SELECT lower(hex(trace_id)) FROM requests ORDER BY rand() LIMIT 500")]
    values = store.overview.values(day, FILTERABLE)
    attributes = [
        f"{key}={text}"
        for trace_id in chance.sample(traces, 50)
        for span in store.requests.trace(trace_id)
        for key, value in span.attributes.items()
        if (text := written(key, value))
    ]

    def filters() -> Filters:
        chosen = chance.sample(FILTERABLE, chance.choice((1, 1, 2)))
        return {dimension: (chance.choice(values[dimension]),) for dimension in chosen}

    def trace() -> object:
        return store.requests.traced(chance.choice(traces))

    def filtered() -> object:
        return store.requests.page(day, filters(), order=chance.choice(("slowest", "newest")))

    def attribute() -> object:
        return store.requests.page(
            day, {"attribute": (chance.choice(attributes),)}, order=chance.choice(("slowest", "newest"))
        )

    def scan(condition: str) -> object:
        asked = [pages.submit(store.rows, sql.format(condition=f"{_within(day)} AND {condition}")) for sql in SCAN]
        return [answer.result() for answer in asked]

    return {
        "empty": lambda: store.rows("SELECT 1"),
        "trace": trace,
        "filter": filtered,
        "attribute": attribute,
        "panel_24h": lambda: _first_panel(store, day, {}, pages),
        "panel_24h_again": lambda: _panel(store, day, {}, pages),
        "panel_24h_filtered": lambda: _first_panel(store, day, {"tier": ("standard",)}, pages),  # seven in ten requests
        "explain": lambda: store.explain.findings(day, level=store.explain.one_in(day)),
        "scan": lambda: scan("1"),
        "scan_filtered": lambda: scan("tier = 'standard'"),
        "scan_explain": lambda: store.rows(SCAN_EXPLAIN.format(condition=_within(day))),
    }


_QUANTILES = "quantiles(0.5, 0.95, 0.99)"
SCAN = (
    "SELECT count(), countIf(status IN ('error', 'rejected')), "
    + ", ".join(f"{_QUANTILES}({column}), sum({column})" for column in ("e2e_ns", "ttft_ns", *(f"stage_{name}" for name in STAGES)))
    + " FROM requests FINAL WHERE {condition} AND status = 'ok'",
    "SELECT intDiv(entry_start_ns, 1800000000000) AS step, count(), "
    + ", ".join(f"{_QUANTILES}({column})" for column in ("e2e_ns", "ttft_ns"))
    + ", "
    + ", ".join(f"avg(stage_{name})" for name in STAGES)
    + " FROM requests FINAL WHERE {condition} AND status = 'ok' GROUP BY step ORDER BY step",
)  # fmt: skip
SCAN_EXPLAIN = (
    "WITH (SELECT quantile(0.95)(e2e_ns) FROM requests FINAL WHERE {condition} AND status = 'ok') AS bound"
    " SELECT model, variant, pool, replica, region, tier, tenant, cache_outcome, prompt_bucket, status, operation, service, count(),"
    " countIf(e2e_ns > bound), "
    + ", ".join(f"sum(stage_{name}), sumIf(stage_{name}, e2e_ns > bound)" for name in STAGES)
    + " FROM requests FINAL WHERE {condition} AND status = 'ok' GROUP BY GROUPING SETS ((model), (variant), (pool), (replica), (region),"
    " (tier), (tenant), (cache_outcome), (prompt_bucket), (status), (operation), (service), ())"
)


def _within(window: Window) -> str:
    return f"entry_start_ns >= {window.from_ns} AND entry_start_ns < {window.to_ns}"


def _panel(store: Store, window: Window, chosen: Filters, pages: Executor) -> object:
    """The report and the chart, as the latency page asks for them."""
    step = step_ns(window)
    rolled = store.latency.rolled(window, chosen, step)
    report = pages.submit(store.latency.report, window, chosen, rolled)
    return store.latency.series(window, chosen, step // 10**9, rolled), report.result()


def _first_panel(store: Store, window: Window, chosen: Filters, pages: Executor) -> object:
    """The same in a process that has kept no answer of the store."""
    vars(store).pop("_last_read", None)
    return _panel(store, window, chosen, pages)


def roll_up(store: Store) -> int:
    done = 0
    while due := store.rollups.due(time.time_ns(), MONTH_DAYS):
        done += sum(store.rollups.fill(stretches, time.time_ns()) for stretches in together(due))
    store.rollups.drop_dead_builds()
    return done


def _month(store: Store, to_ns: int, pages: Executor) -> Iterator[Figure]:
    """A month of rollups: the rows of the day's hours, copied back in time day by day, and half days made of them."""
    last_s = to_ns // (3600 * 10**9) * 3600
    day_s = DAY_NS // 10**9
    of_day = f"step_s = 3600 AND start_s >= {last_s - day_s} AND start_s < {last_s}"
    current = f"{of_day} AND build IN (SELECT build FROM rollup_builds FINAL WHERE kind = 'rollups' AND {of_day})"
    builds = f"kind = 'rollups' AND {of_day}"
    store.command("SYSTEM STOP TTL MERGES rollups")  # the hours are dropped when half days are made of them
    for back in range(1, MONTH_DAYS):
        for table, condition in (("rollups", current), ("rollup_slices", current), ("rollup_builds FINAL", builds)):
            name = table.split()[0]
            columns = [row[0] for row in store.rows(f"DESCRIBE TABLE {name}")]
            moved = {"start_s": f"start_s - {back * day_s}", "build": f"build - {back * day_s}000000000"}
            store.command(
                f"INSERT INTO {name} ({', '.join(columns)}) SELECT {', '.join(moved.get(column, column) for column in columns)}"
                f" FROM {table} WHERE {condition}"
            )
    store.command(
        "INSERT INTO rollup_touched SELECT intDiv(start_s, 300), touches FROM rollup_builds FINAL WHERE kind = 'rollups'"
        f" AND step_s = 3600 AND start_s < {last_s - day_s}"
    )
    for back in range(MONTH_DAYS):
        then_ns = to_ns - back * DAY_NS
        due = [stretch for stretch in store.rollups.due(then_ns, 2) if stretch.tier.step_s == 43_200]
        for stretches in together(due):
            store.rollups.fill(stretches, then_ns)
    store.command("SYSTEM START TTL MERGES rollups")
    old = f"SELECT count() FROM rollups WHERE step_s = 3600 AND start_s < {last_s - KEPT_H[3600] * 3600 - 3 * day_s}"
    deadline = time.monotonic() + 120
    while store.rows(old)[0][0] and time.monotonic() < deadline:
        store.command("ALTER TABLE rollups MATERIALIZE TTL SETTINGS mutations_sync = 1")
        time.sleep(5)
    settle(store)
    month = Window(to_ns - MONTH_DAYS * DAY_NS, to_ns)
    took_us = []
    for _ in range(MONTH_ROUNDS):
        began = time.perf_counter_ns()
        _first_panel(store, month, {}, pages)
        took_us.append((time.perf_counter_ns() - began) // 1000)
    if store.latency.report(month).exact:
        raise BenchError("the month was not answered out of rollups")
    yield Figure(
        "query.panel_30d_p95_ms", percentile(took_us, 0.95) / 1e3, "ms", f"rollups of {MONTH_REQUESTS:,} requests"
    )
    [(size,)] = store.rows(
        "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = currentDatabase()"
        " AND table IN ('rollups', 'rollup_slices', 'rollup_builds', 'rollup_touched', 'demand')"
    )
    yield Figure(
        "store.rollup_bytes_per_request",
        size / MONTH_REQUESTS,
        "B/request",
        "the newest days in fine steps, 30 days in all",
    )


def _empty() -> Iterator[Figure]:
    """An empty question over HTTP, beside the same in the process of the engine."""
    from controlplane.telemetry.store.embedded.engine import Engine

    took: dict[str, list[int]] = {"http": [], "engine": []}
    with TemporaryDirectory(prefix="weir-bench-") as folder, ExitStack() as stack:
        engine = Engine(Path(folder) / "engine")
        stack.callback(engine.close)
        store = Store(_serve(Path(folder), stack))
        settings = {name: str(value) for name, value in READ_SETTINGS.items()}
        with ThreadPoolExecutor(1) as thread:
            asked = {
                "http": lambda: store.rows("SELECT 1"),
                "engine": lambda: thread.submit(engine.run, Query("SELECT 1", "Native"), "", settings, {}).result(),
            }
            for _ in range(1000):
                for name, ask in asked.items():
                    began = time.perf_counter_ns()
                    ask()
                    took[name].append(time.perf_counter_ns() - began)
    yield Figure(
        "query.empty_vs_engine",
        median(took["http"]) / median(took["engine"]),
        "ratio",
        "in a thread of the engine's process",
    )


def _ask(questions: Questions) -> dict[str, list[int]]:
    """How long each took, µs, by question; the first answer of each is not counted."""
    took_us: dict[str, list[int]] = defaultdict(list)
    for ask in questions.values():
        ask()
    for _ in range(ROUNDS):
        for name, ask in questions.items():
            for _ in range(PER_ROUND[name]):
                began = time.perf_counter_ns()
                ask()
                took_us[name].append((time.perf_counter_ns() - began) // 1000)
    return took_us
