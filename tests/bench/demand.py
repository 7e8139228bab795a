"""How long it takes to read four weeks of 5-minute demand of 200 series, as a refresh of the forecasts does."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import numpy as np

from tests.bench.figures import Figure, say
from tests.bench.query import _serve
from tests.bench.slo import _django
from tests.support.planning.stored_demand import store_demand

SERIES, STEPS = 200, 28 * 288
RUNS = 9


def run() -> Iterator[Figure]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-bench-")))
        dsn = _serve(folder, stack)
        _django(folder, dsn)

        from controlplane.planning import demand
        from controlplane.telemetry.store import Store

        store, now_s = Store(dsn), int(time.time())
        from_s = now_s // 300 * 300 - STEPS * 300
        say(f"storing {SERIES * STEPS:,} steps")
        rng = np.random.default_rng(1)
        daily = 200 + 150 * np.sin(np.arange(STEPS) / 288 * 2 * np.pi)
        for number in range(SERIES):
            key = (f"model-{number // 20}", f"tier-{number // 4 % 5}", f"region-{number % 4}")
            store_demand(store, from_s, rng.poisson(daily), key, finished=not number)
        took = []
        for _ in range(RUNS):
            began = time.perf_counter()
            known = demand.history(now_s, history_s=STEPS * 300)
            took.append(time.perf_counter() - began)
        measured = sum(int((~np.isnan(each.requests.values)).sum()) for each in known)
        assert len(known) == SERIES, len(known)
        yield Figure(
            "demand.read_200_series_s",
            median(took),
            "s",
            f"{measured:,} measured steps, worst of {RUNS}: {max(took):.2f} s",
        )
        empty = []
        for _ in range(RUNS):
            began = time.perf_counter()
            store.rows("SELECT 1")
            empty.append(time.perf_counter() - began)
        yield Figure(
            "demand.read_vs_empty", median(took) / median(empty), "ratio", "over SELECT 1 through the same way"
        )
