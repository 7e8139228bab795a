"""How long a tick of the controller takes, by the number of objectives: ledger read, tallies, verdicts, states written to SQLite.

The store holds two million requests of 24 hours (23 a second), which is what one gateway process may leave in a day; each tick reads the
last five minutes of them again. Objectives are of every model, tier and region, on every measure, with thresholds of their own: no two
ask the same. Incidents are left out: nothing fires most of the time.
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from statistics import median

from tests.bench.figures import Figure, say
from tests.bench.loads.synthetic import MODELS, REGIONS, TIERS, load
from tests.bench.query import DAY_NS, _serve, settle

REQUESTS = 2_000_000
SIZES = (125, 250, 500, 1000)
TICKS = 15
EVERY = timedelta(seconds=5)


def run() -> Iterator[Figure]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-bench-")))
        dsn = _serve(folder, stack)
        _django(folder, dsn)

        from controlplane.telemetry.store import Store

        store, now = Store(dsn), datetime.now(UTC)
        to_ns = int(now.timestamp() * 1e9)
        say(f"loading {REQUESTS:,} requests")
        load(store, REQUESTS, from_ns=to_ns - DAY_NS, to_ns=to_ns, seed=3, spans=False)  # objectives never read them
        settle(store)
        took: dict[int, float] = {}
        for size in SIZES:
            ticks, worst, swept_s, tallies = _ticks(store, size, now - EVERY * TICKS)
            took[size] = ticks
            yield Figure(f"slo.tick_{size}_s", ticks, "s", f"{REQUESTS:,} requests of 24 h")
            if size == 500:
                yield Figure("slo.tick_500_worst_s", worst, "s", f"of {TICKS} ticks")
                yield Figure("slo.count_24_h_500_s", swept_s, "s", "the whole history, at a start")
                yield Figure("slo.tallies_500_bytes", tallies, "B", "in memory")
        yield Figure("slo.tick_growth", took[1000] / took[250] / 4, "ratio", "1 is linear, from 250 to 1000 objectives")


def _django(folder: Path, dsn: str) -> None:
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "controlplane.settings",
        "WEIR_HOME": str(folder / "web"),
        "WEIR_STORE_DSN": dsn,
        "WEIR_LOG_LEVEL": "warning",
    }
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
    sys.stdout.flush()


def _ticks(store: object, size: int, now: datetime) -> tuple[float, float, float, float]:
    """Median and worst of the ticks, s; how long counting the whole history took, s; memory of the tallies, bytes."""
    from django.conf import settings

    from controlplane.controller.loop import Controller
    from controlplane.slo.models import StoredObjective
    from controlplane.slo.save import save_objective

    say(f"{size} objectives")
    StoredObjective.objects.all().delete()
    for objective in _objectives(size):
        save_objective(objective, who="bench")
    controller = Controller(store, settings.CONFIG, lambda alerts, now, fence: None)  # type: ignore[arg-type]
    controller.step(now)
    began = time.perf_counter()
    while controller.evaluator.sweep(int(now.timestamp() * 1e9)):
        pass
    swept_s = time.perf_counter() - began
    took = []
    for number in range(TICKS):
        began = time.perf_counter()
        outcome = controller.step(now + EVERY * (number + 1))
        took.append(time.perf_counter() - began)
        assert len(outcome.evaluations) == size, outcome.error
    return median(took), max(took), swept_s, controller.evaluator.nbytes


def _objectives(size: int) -> list[object]:
    from controlplane.slo.core.objective import Objective
    from controlplane.slo.core.sli import MEASURES, Availability, Cost, Latency
    from inference.contract.stages import STAGES

    scopes = [
        {name: str(value) for name, value in zip(("model", "tier", "region"), values, strict=True) if value}
        for values in product([*MODELS, ""], [*TIERS, ""], [*REGIONS, ""])
    ]
    found: list[object] = []
    for number in range(size):
        measure = (*MEASURES, *STAGES, "availability", "cost")[number % 12]
        indicator = (
            Availability()
            if measure == "availability"
            else Cost(0.001 * (1 + number))
            if measure == "cost"
            else Latency(measure, 10.0 + number)
        )
        scope = scopes[number // 12 % len(scopes)]
        found.append(Objective(f"objective-{number}", f"Objective {number}", indicator, 0.99, scope))
    return found
