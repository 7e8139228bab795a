"""Rollups and demand say what the requests say, whatever is written, amended or withdrawn later."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from controlplane.telemetry.ledger.row import STAGES, LedgerRow
from controlplane.telemetry.store import Store
from controlplane.telemetry.store.maintenance.rollup_sql import PART_BINS
from controlplane.telemetry.store.maintenance.rollups import TIERS
from tests.support.telemetry.rollups import bins_of, fill
from tests.support.telemetry.samples import NOON_NS, S, answered, random_rows

HALF_DAY_NS = 43_200 * S
STEPS_S = [tier.step_s for tier in TIERS if tier.kind == "rollups"]


def traffic(count: int = 2000, seed: int = 1) -> list[LedgerRow]:
    """Over an hour of today: rows with short steps are kept a day."""
    moved_ns = (time.time_ns() - 3 * 3600 * S) // (300 * S) * 300 * S - NOON_NS
    return [
        replace(
            one,
            entry_start_ns=one.entry_start_ns + moved_ns,
            start_ns=one.start_ns + moved_ns,
            end_ns=one.end_ns + moved_ns,
        )
        for one in random_rows(count, seed)
    ]


def fill_all(store: Store, rows: Sequence[LedgerRow]) -> int:
    """Fill every tier, as if two hours and then a day had passed since these rows."""
    newest_ns = max(one.entry_start_ns for one in rows)
    return fill(store, newest_ns + 2 * 3600 * S) + fill(store, newest_ns + 2 * HALF_DAY_NS)


def assert_rollups(store: Store, rows: Sequence[LedgerRow], steps_s: Sequence[int] = STEPS_S) -> None:
    for step_s in steps_s:
        current = f"step_s = {step_s} AND build IN (SELECT build FROM rollup_builds FINAL WHERE kind = 'rollups' AND step_s = {step_s})"
        counted = store.rows(
            "SELECT start_s, toString(model), toString(status), sum(requests), sum(e2e_ns), sum(input_tokens), sum(unmeasured),"
            f" sum(stage_queue), sum(ttft_known), sum(ttft_ns) FROM rollups WHERE {current} AND requests > 0 GROUP BY ALL"
        )
        wanted: dict[tuple[int, str, str], list[LedgerRow]] = {}
        for one in rows:
            wanted.setdefault((one.entry_start_ns // (step_s * S) * step_s, one.model, one.status), []).append(one)
        assert {tuple(found[:3]): tuple(found[3:]) for found in counted} == {
            key: (
                len(of),
                sum(one.e2e_ns for one in of),
                sum(one.prompt_tokens or 0 for one in of),
                sum(one.unmeasured and one.status == "ok" for one in of),
                sum(one.stages["queue"] for one in of),
                sum(one.ttft_ns is not None for one in of),
                sum(one.ttft_ns or 0 for one in of),
            )
            for key, of in wanted.items()
        }
        ok = answered(rows)
        histograms = {
            "e2e": Counter(bins_of([one.e2e_ns for one in ok])),
            "ttft": Counter(bins_of([one.ttft_ns for one in ok if one.ttft_ns is not None])),
            "part": Counter(
                bin_ + number * PART_BINS
                for number, part in enumerate((*STAGES, "unattributed"))
                for bin_ in bins_of([one.unattributed_ns if part == "unattributed" else one.stages[part] for one in ok])
            ),
        }
        for name, counts in histograms.items():
            assert (
                dict(
                    store.rows(
                        f"SELECT bin, sum(number) FROM rollups ARRAY JOIN {name}_bins AS bin, {name}_counts AS number"
                        f" WHERE {current} GROUP BY bin"
                    )
                )
                == counts
            )
        [(busy_ns,)] = store.rows(f"SELECT sum(busy_ns) FROM rollups WHERE {current}")
        assert busy_ns == sum(one.end_ns - one.entry_start_ns for one in rows)


def test_rollups_say_what_requests_say(store: Store) -> None:
    rows = traffic()
    store.insert_requests(rows, version=1)
    assert fill_all(store, rows)
    assert_rollups(store, rows)
    assert fill_all(store, rows) == 0
