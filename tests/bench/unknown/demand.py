"""By how much the next day's forecast changes because a gateway was down, a key sent what was refused, or another region served: from rows
of the ledger through rollups and demand to the forecast, each beside the same days without it.
"""

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from tests.bench.figures import Figure, say
from tests.bench.query import _serve
from tests.bench.slo import _django

DAYS = (2, 5, 15)
"""Of history: with little a forecast repeats the last day, gaps and all; with more it knows what is usual."""
STEP_S, PER_STEP, SETTLED_S = 300, 20, 120
LOOKS = 20
"""In five minutes, as telemetry scrapes."""
OUTAGE_STEPS, FAILOVER_STEPS = 6, 24
FLOOD = 10
"""Refused requests of each kind, for each one that is served."""
KEPT_DAYS = 30


def run(seed: int) -> Iterator[Figure]:
    changes = dict[str, list[float]]()
    for days in DAYS:
        for name, change in _changes(seed, days):
            changes.setdefault(name, []).append(100 * change)
    for name, each in changes.items():
        text = ", ".join(f"{change:.2g} after {days} days" for change, days in zip(each, DAYS, strict=True))
        yield Figure(f"demand.{name}_effect_pct", max(each), "%", f"of the day ahead, seed {seed}: {text}")


def _changes(seed: int, days: int) -> Iterator[tuple[str, float]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-bench-")))
        dsn = _serve(folder, stack)
        _django(folder, dsn)

        from controlplane.telemetry.query import answers
        from controlplane.telemetry.store import Store

        store = Store(dsn)
        stack.enter_context(patch.object(answers, "store", lambda: store))
        end_s = int(time.time()) // STEP_S * STEP_S - 3 * STEP_S
        steps = days * 288
        rng = np.random.default_rng(seed)
        hours = np.arange(steps) * STEP_S / 3600
        counts = rng.poisson(PER_STEP * (1 + 0.6 * np.sin(hours / 24 * 2 * np.pi)))
        last = steps - FAILOVER_STEPS
        say(f"storing {3 * counts.sum():,} requests of {days} days")
        written = _Days(store, end_s - steps * STEP_S, counts)
        found = np.full(steps, True)
        found[-OUTAGE_STEPS:] = False
        written.write("usual", 0, steps - OUTAGE_STEPS)
        written.look(found)
        outage = written.forecasts()["usual"]

        written.write("usual", steps - OUTAGE_STEPS, steps)
        store.command("TRUNCATE TABLE gateway_looks")
        written.look(np.full(steps, True))
        written.write("refused", 0, steps)
        wrong = {"status": "rejected", "http_status": 401, "error_type": "invalid_api_key", "tier": "", "region": ""}
        limited = {"status": "rejected", "http_status": 429, "error_type": "rate_limit_exceeded"}
        written.write("", last, steps, FLOOD, wrong | {"caller_region": ""})
        written.write("refused", last, steps, FLOOD, limited)
        written.write("failover", 0, last)
        written.write("failover", last, steps, 1, {"region": "us", "pool": "chat-us"})
        with_it = written.forecasts()
        for name, forecast in (("outage", outage), ("refused", with_it["refused"]), ("failover", with_it["failover"])):
            yield name, max(_change(forecast.at(level), with_it["usual"].at(level)) for level in (0.5, 0.9))


def _change(values: np.ndarray, usual: np.ndarray) -> float:
    return float(np.abs(values - usual).sum() / usual.sum())


class _Days:
    """Writes requests that arrive as `counts` says, in steps from `from_s` on."""

    def __init__(self, store: Any, from_s: int, counts: np.ndarray) -> None:
        self._store, self._from_s, self._counts, self._written = store, from_s, counts, 0

    def write(self, model: str, first: int, end: int, times: int = 1, changes: Mapping[str, Any] | None = None) -> None:
        from tests.support.telemetry.samples import S, row

        rows = []
        for step in range(first, end):
            of_step = int(self._counts[step]) * times
            for number in range(of_step):
                self._written += 1
                at_ns = (self._from_s + step * STEP_S) * S + number * STEP_S * S // of_step
                rows.append(row(self._written, entry_start_ns=at_ns, **{"model": model} | dict(changes or {})))
            if len(rows) > 20_000 or step == end - 1:
                self._store.writer.insert_requests(rows, version=1)
                rows = []

    def look(self, found: np.ndarray) -> None:
        """Telemetry's looks at the gateway: whether it was there, by step; and that it received all the time."""
        from controlplane.telemetry.metrics.batch import Scrape
        from tests.support.telemetry.samples import S
        from tests.support.telemetry.stored_metrics import scraped

        url, refused = "http://gateway/metrics", "ClientConnectorError: connection refused"
        starts = [self._from_s + step * STEP_S for step in range(len(found))]
        scraped(
            self._store,
            [
                Scrape((start_s + 15 * number) * S, "gateway", "gateway", url, bool(up), 1, 1, "" if up else refused)
                for start_s, up in zip(starts, found, strict=True)
                for number in range(LOOKS)
            ],
        )
        self._store.command("TRUNCATE TABLE recorded")
        self._store.rollups.insert_recorded(dict.fromkeys(starts, float(STEP_S)))

    def forecasts(self) -> dict[str, Any]:
        """Of each model's requests/s, for the day ahead."""
        from controlplane.planning import demand
        from forecasting.calendar import DAY_S
        from forecasting.refresh import predict, refresh
        from tests.support.telemetry.rollups import fill

        end_s = self._from_s + len(self._counts) * STEP_S
        fill(self._store, time.time_ns(), KEPT_DAYS, together_s=6 * 3600)
        made = {}
        for each in demand.history(end_s + SETTLED_S, history_s=len(self._counts) * STEP_S):
            say(f"forecasts the demand for {each.key.model} in {each.key.region or 'an unknown region'}")
            [choice] = refresh(each.requests, (DAY_S,))
            made[each.key.model] = predict(each.requests, choice)
            assert each.key.region == "eu", each.key
        return made
