"""Rollups and demand say what the requests say, whatever is written, amended or withdrawn later."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from controlplane.telemetry.core.demand_rows import DemandRows
from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.store import Store
from controlplane.telemetry.store.maintenance import rollups
from controlplane.telemetry.store.maintenance.rollups import together
from controlplane.telemetry.store.read.histograms import BINS
from controlplane.telemetry.store.tiers import STEPS_S
from controlplane.telemetry.store.write.keys import key_of
from inference.contract.stages import STAGES
from tests.support.telemetry.rollups import OF_REQUESTS, assert_equals_the_ledger, awake, bins_of, fill
from tests.support.telemetry.samples import NOON_NS, S, answered, random_rows, row

HALF_DAY_NS = 43_200 * S


def traffic(count: int = 500, seed: int = 1) -> list[LedgerRow]:
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
            "SELECT start_s, toString(model), toString(status), sum(requests), sum(input_tokens), sum(output_tokens),"
            f" round(sum(cost_usd), 6), sum(unmeasured), max(newest_ns) FROM rollups WHERE {current} GROUP BY ALL"
        )
        wanted: dict[tuple[int, str, str], list[LedgerRow]] = {}
        for one in rows:
            wanted.setdefault((one.entry_start_ns // (step_s * S) * step_s, one.model, one.status), []).append(one)
        assert {tuple(found[:3]): tuple(found[3:]) for found in counted} == {
            key: (
                len(of),
                sum(one.prompt_tokens or 0 for one in of),
                sum(one.output_tokens or 0 for one in of),
                round(sum(one.cost_usd or 0 for one in of), 6),
                sum(one.unmeasured and one.status == "ok" for one in of),
                max(one.end_ns for one in of),
            )
            for key, of in wanted.items()
        }
        ok = answered(rows)
        histograms = {
            "e2e": Counter(bins_of([one.e2e_ns for one in ok])),
            "ttft": Counter(bins_of([one.ttft_ns for one in ok if one.ttft_ns is not None])),
            "part": Counter(
                bin_ + number * BINS
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


def test_rollups_say_what_requests_say_also_of_late_amended_and_withdrawn_ones_from_the_next_build_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = traffic()
    late, amended, withdrawn = rows[:100], rows[100:150], rows[150:200]
    store.writer.insert_requests(rows[100:], version=1)
    assert fill_all(store, rows)
    assert_rollups(store, rows[100:])
    assert fill_all(store, rows) == 0

    changed = [replace(one, model="other", tier="premium", region="us", status="ok") for one in amended]
    store.writer.insert_requests([*late, *changed], version=2)
    store.writer.withdraw_requests([key_of(one) for one in withdrawn], version=2)
    assert_rollups(store, rows[100:])  # the builds before, and nothing of those that are due
    assert fill_all(store, rows)
    left = [*late, *changed, *rows[200:]]
    assert_rollups(store, left)
    assert_equals_the_ledger(store, 0, 2**31)

    newest = max(rows, key=lambda one: one.entry_start_ns)
    store.writer.insert_requests([replace(newest, model="other")], version=3)
    assert fill_all(store, rows) == len(OF_REQUESTS), "only stretches that were written to: one of each tier"

    store.rollups.drop_dead_builds()
    [(all_rows,)] = store.rows("SELECT count() FROM rollups")
    dead = (
        "SELECT count() FROM rollups WHERE build NOT IN (SELECT build FROM rollup_builds FINAL WHERE kind = 'rollups')"
    )
    [(replaced,)] = store.rows(dead)
    assert 0 < replaced < all_rows, "a query may read them"
    monkeypatch.setattr(rollups, "DEAD_KEPT_S", 0)
    with awake(store, "rollups", "rollup_slices", "demand"):
        store.rollups.drop_dead_builds()
    assert store.rows(dead) == [(0,)]
    assert_equals_the_ledger(store, 0, 2**31)


def test_what_was_filled_twice_or_killed_before_its_end_is_nowhere_to_be_seen(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = traffic()
    store.writer.insert_requests(rows, version=1)
    now_ns = max(one.entry_start_ns for one in rows) + 2 * 3600 * S
    for run in together(store.rollups.due(now_ns, 30)):
        for _ in range(2):  # by two fillers at once
            store.rollups.fill(run, now_ns)
    fill_all(store, rows)
    monkeypatch.setattr(Store, "insert_arrow", lambda *_: None)  # as far as a killed process comes
    for run in together([replace(stretch, touches=0) for stretch in due_again(store, rows)]):
        store.rollups.fill(run, now_ns)
    monkeypatch.undo()
    assert_rollups(store, rows)


def due_again(store: Store, rows: Sequence[LedgerRow]) -> list[rollups.Stretch]:
    """Every stretch, as if none had been built."""
    store.command("RENAME TABLE rollup_builds TO known_builds")
    store.command("CREATE TABLE rollup_builds AS known_builds")
    due = store.rollups.due(max(one.entry_start_ns for one in rows) + 2 * 3600 * S, 30)
    store.command("DROP TABLE rollup_builds")
    store.command("RENAME TABLE known_builds TO rollup_builds")
    return due


def test_a_ledger_of_last_week_is_rolled_up_without_the_steps_that_are_kept_for_days(store: Store) -> None:
    rows = [
        replace(one, entry_start_ns=one.entry_start_ns - 7 * 2 * HALF_DAY_NS, start_ns=one.start_ns - 7 * 2 * HALF_DAY_NS,
                end_ns=one.end_ns - 7 * 2 * HALF_DAY_NS)
        for one in traffic()
    ]  # fmt: skip
    store.writer.insert_requests(rows, version=1)
    assert fill(store, time.time_ns())
    assert store.rows("SELECT DISTINCT step_s FROM rollups ORDER BY step_s") == [(3600,), (43_200,)]
    assert_rollups(store, rows, [3600, 43_200])
    assert_equals_the_ledger(store, 0, 2**31, [tier for tier in OF_REQUESTS if tier.filled_s is None])


def test_what_the_ledger_no_longer_keeps_is_not_built_again(store: Store) -> None:
    rows = traffic()
    store.writer.insert_requests(rows, version=1)
    fill_all(store, rows)
    store.command("TRUNCATE TABLE requests")
    store.writer.insert_requests(rows[:1], version=2)
    assert fill(store, time.time_ns() + 3 * 2 * HALF_DAY_NS, retention_days=1) == 0
    assert_rollups(store, rows, [3600, 43_200])


def test_a_stretch_is_filled_two_minutes_after_its_end(store: Store) -> None:
    start_ns = traffic()[0].entry_start_ns // (3600 * S) * 3600 * S
    store.writer.insert_requests([row(1, entry_start_ns=start_ns)], version=1)
    over_ns = start_ns + (300 + rollups.SETTLED_S) * S
    assert store.rollups.due(over_ns - S, 30) == []
    assert {stretch.tier.step_s for stretch in store.rollups.due(over_ns, 30)} == {300}
    hour = {300, 1800, 3600}
    if (start_ns + 3600 * S) % HALF_DAY_NS == 0:
        hour.add(43_200)  # its end is that of a half day too
    assert {stretch.tier.step_s for stretch in store.rollups.due(over_ns + 3300 * S, 30)} == hour


LIMITED = {"status": "rejected", "http_status": 429, "error_type": "rate_limit_exceeded"}
SHED = {"status": "rejected", "http_status": 429, "error_type": "queue_full"}
AGAIN, KEYED = {"repeated": True}, {"idempotency_key": 7}
ASKED: dict[str, list[dict[str, object]]] = {
    "a retry that its client counts": [SHED, SHED | AGAIN, AGAIN, {}, {}],
    "a retry with an idempotency key": [SHED | KEYED, SHED | KEYED, KEYED, {}, {}],
    "repeats of what nobody saw fail": [AGAIN] * 3 + [KEYED] * 4,
    "lines that can wait": [
        *[{"can_wait": True}] * 3,
        LIMITED | {"error_stage": "gateway", "can_wait": True},
        {"tier": "batch", "can_wait": True},
        {},
    ],
    "served elsewhere": [
        *[{"region": "us"}] * 5,
        *[{"region": "eu"}] * 2,
        {"adapter": "vllm", "caller_region": "", "region": "asia"},
    ],
    "not all for replicas": [
        *[{"status": "ok"}] * 4,
        *[SHED] * 2,
        *[LIMITED] * 30,
        *[{"status": "rejected", "http_status": 401, "error_type": "invalid_api_key"}] * 500,
        {"status": "rejected", "http_status": 400, "error_type": "context_length_exceeded"},
        {"status": "error", "http_status": 502, "error_type": "model_error", "output_tokens": 1},
        {"status": "cancelled", "http_status": 499, "output_tokens": 2},
        {"status": "error", "http_status": 400, "adapter": "generic"},
    ],
    "nobody-has-it": [{"status": "rejected", "http_status": 404, "error_type": "model_not_found"}],
    "": [{"status": "error", "http_status": 503, "error_type": "service_unavailable"}],
}
"""Requests of one five minutes, by their model."""


@pytest.fixture(scope="module")
def demand(shared_store: Store) -> list[DemandRows]:
    """What they are counted as."""
    usual = {
        "tier": "standard", "region": "eu", "caller_region": "eu", "operation": "chat", "cache_outcome": "", "status": "ok",
        "prompt_tokens": 10, "output_tokens": 100, "error_type": "", "http_status": 200,
    }  # fmt: skip
    asked = [{"model": model} | each for model, every in ASKED.items() for each in every]
    times = traffic(len(asked))
    start_ns = times[0].entry_start_ns
    rows = [replace(like, entry_start_ns=start_ns, **(usual | each)) for like, each in zip(times, asked, strict=True)]
    shared_store.writer.insert_requests(rows, version=1)
    fill_all(shared_store, rows)
    from_s = start_ns // S // 300 * 300
    return shared_store.demand.steps(from_s, from_s + 300)


def counts_of(demand: Sequence[DemandRows], model: str) -> dict[str, int]:
    [counted] = [row for row in demand if row.model == model]
    return {name: int(values[0]) for name, values in counted.counts.items()}


def test_what_replicas_cannot_have_is_no_demand_of_any_model(demand: list[DemandRows]) -> None:
    assert {row.model for row in demand} == ASKED.keys() - {"nobody-has-it", ""}


@pytest.mark.parametrize("model", ["a retry that its client counts", "a retry with an idempotency key"])
def test_a_request_that_is_sent_again_after_a_failure_counts_once(demand: list[DemandRows], model: str) -> None:
    counts = counts_of(demand, model)
    assert (counts["requests"], counts["shed"]) == (3, 0)


def test_a_repeat_of_what_nobody_saw_fail_is_demand(demand: list[DemandRows]) -> None:
    """The gateway that had the first one is gone, or a client gives all its requests one key."""
    assert counts_of(demand, "repeats of what nobody saw fail")["requests"] == 7


def test_lines_that_can_wait_are_no_demand(demand: list[DemandRows]) -> None:
    counts = counts_of(demand, "lines that can wait")
    assert (counts["requests"], counts["limited"], counts["input_tokens"]) == (1, 0, 10)


def test_demand_stays_in_the_callers_region_when_another_one_serves_it(demand: list[DemandRows]) -> None:
    found = [row for row in demand if row.model == "served elsewhere"]
    assert {row.region: int(row.counts["requests"][0]) for row in found} == {"eu": 7, "asia": 1}


def test_only_what_replicas_could_have_answered_is_demand(demand: list[DemandRows]) -> None:
    """Over a limit is counted apart, and what is wrong nowhere. The output of what failed or was cancelled is not known."""
    counts = counts_of(demand, "not all for replicas")
    del counts["from_cache"]
    assert counts == {
        "requests": 8,
        "shed": 2,
        "limited": 30,
        "input_tokens": 80,
        "input_known": 8,
        "output_tokens": 400,
        "output_known": 4,
    }
