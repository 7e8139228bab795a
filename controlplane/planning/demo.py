"""Fills the store with synthetic weeks before the oldest real request, and removes them again."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import structlog

from controlplane.fleet.inventory import embedders
from controlplane.fleet.models import Pool, Tier
from controlplane.planning import jobs, refresh
from controlplane.planning.core.demo_traffic import WEEK_S, Stream, requests
from controlplane.planning.models import DemoHistory
from controlplane.telemetry.query import answers
from controlplane.telemetry.store.maintenance.demo import STEP_S, STRETCH_S

log = structlog.get_logger(__name__)

MAX_WEEKS = 52
TIER_SHARES = (0.5, 0.35, 0.15)
"""Of a model's requests, by the tiers' precedence; further tiers have the last share."""
INPUT_TOKENS, OUTPUT_TOKENS = (420.0, 180.0, 900.0), (60.0, 40.0, 150.0)


KIND = "demo_history"
DELETE = {"delete": True}


class DemoRefusedError(ValueError):
    """Permanent: no synthetic history can be written. The message has the remedy."""


@jobs.kind(KIND)
def demo_history(request: Mapping[str, Any], progress: jobs.Progress) -> dict[str, Any]:
    """The job: DELETE as its request removes all synthetic history, else it has the arguments of `fill`. The forecasts that rest on it are
    made anew in a job of their own.
    """
    if request == DELETE:
        return {"requests": delete(), "note": "removed", "forecasts_job": _forecasts()}
    if "weeks" not in request:
        raise DemoRefusedError("weeks is missing: start it with manage.py demo_history")
    try:
        row = fill(
            request["weeks"],
            request["requests_per_s"],
            request["seed"],
            lambda done, total: progress.report(done, total, "writes synthetic half days"),
        )
    except jobs.JobCancelledError:
        delete()
        raise
    return {"requests": row.requests, "note": "written", "forecasts_job": _forecasts()}


def _forecasts() -> int:
    return jobs.start(refresh.KIND, author=KIND).pk


def fill(weeks: int, requests_per_s: float, seed: int, progress: Callable[[int, int], None]) -> DemoHistory:
    """Write `weeks` of history of the fleet's models and tiers that end where real requests begin, or now, to five minutes.

    `requests_per_s` is the mean over all of them. `progress` gets half days that are done, and all. Raises DemoRefusedError and the
    store's errors.
    """
    check(weeks, requests_per_s)
    streams = fleet_streams(requests_per_s)
    store = answers.store()
    store.demo.delete()  # of a run that was interrupted
    DemoHistory.objects.all().delete()
    oldest_ns = store.objectives.oldest_entry()
    now_s = int(time.time())
    to_s = (min(now_s, oldest_ns // 10**9) if oldest_ns is not None else now_s) // STEP_S * STEP_S
    last_s = to_s // STRETCH_S * STRETCH_S
    from_s = last_s - weeks * WEEK_S
    row = DemoHistory.objects.create(from_s=from_s, to_s=to_s, requests=0, seed=seed)
    stretches = list(range(last_s if last_s < to_s else last_s - STRETCH_S, from_s - 1, -STRETCH_S))
    store.demo.begin()
    try:
        for done, start_s in enumerate(stretches):
            end_s = min(start_s + STRETCH_S, to_s)
            columns = requests(streams, start_s, end_s - start_s, from_s, seed)
            store.demo.fill(_table(columns), start_s, end_s)
            row.requests += len(columns["e2e_ns"])
            progress(done + 1, len(stretches))
    finally:
        store.demo.end()
    row.complete = True
    row.save(update_fields=["requests", "complete"])
    log.info("demo_history.filled", weeks=weeks, requests=row.requests)
    return row


def check(weeks: int, requests_per_s: float) -> None:
    """Raises DemoRefusedError where `fill` would not begin."""
    if not 1 <= weeks <= MAX_WEEKS:
        raise DemoRefusedError(f"weeks={weeks} is out of range: use 1 to {MAX_WEEKS}")
    if not 0.01 <= requests_per_s <= 100:
        raise DemoRefusedError(f"requests_per_s={requests_per_s:g} is out of range: use 0.01 to 100")
    if DemoHistory.objects.filter(complete=True).exists():
        raise DemoRefusedError("the store has a synthetic history: remove it first, with --delete")


def delete() -> int:
    """Remove all synthetic history. Returns how many requests it stood for. Raises the store's errors."""
    answers.store().demo.delete()
    count = sum(DemoHistory.objects.values_list("requests", flat=True))
    DemoHistory.objects.all().delete()
    log.info("demo_history.deleted", requests=count)
    return count


def fleet_streams(requests_per_s: float) -> list[Stream]:
    """Traffic of every enabled pool that clients use, and tier. Raises DemoRefusedError where there is none."""
    enabled = Pool.objects.filter(enabled=True).exclude(variant__model__in=embedders())
    pools = list(enabled.select_related("variant__model", "region"))
    tiers = list(Tier.objects.values_list("name", flat=True))
    if not pools or not tiers:
        raise DemoRefusedError("the fleet has no enabled pool or no tier: enter them in the admin first")
    shares = [TIER_SHARES[min(number, len(TIER_SHARES) - 1)] for number in range(len(tiers))]
    weights = [pool.weight for pool in pools]
    if not any(weights):
        weights = [1] * len(pools)
    streams = []
    for number, pool in enumerate(pools):
        for at, tier in enumerate(tiers):
            share = weights[number] / sum(weights) * shares[at] / sum(shares)
            streams.append(
                Stream(
                    model=pool.variant.model.name,
                    variant=pool.variant.name,
                    pool=pool.name,
                    tier=tier,
                    region=pool.region.name,
                    requests_per_s=requests_per_s * share,
                    peak_hour=14.0 + 2 * (number % 3) if at < 2 else 3.0,  # batch work runs at night
                    input_tokens=INPUT_TOKENS[at % 3],
                    output_tokens=OUTPUT_TOKENS[number % 3],
                )
            )
    return streams


def _table(columns: dict[str, "np.ndarray[tuple[int, ...], np.dtype[np.generic]]"]) -> pa.Table:
    made = {name: pa.array(values) for name, values in columns.items() if name != "request_id"}
    ids = columns["request_id"].astype(">u8").tobytes()
    made["request_id"] = pa.FixedSizeBinaryArray.from_buffers(pa.binary(8), len(ids) // 8, [None, pa.py_buffer(ids)])
    return pa.table(made)
