"""What replicas carried and how long they took to start, from stored rows and metrics."""

import pytest

from controlplane.telemetry.core.objective_counts import Cut
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.core.replica_load import PoolLoad, ReplicaStart
from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.store import Store, StoreInputError
from tests.support.telemetry.embedded_store import UNASKED
from tests.support.telemetry.samples import NOON_NS, S, row
from tests.support.telemetry.stored_metrics import write

MS = 1_000_000
STEP_S = 300
START_NS = NOON_NS // (STEP_S * S) * STEP_S * S
WINDOW = Window(START_NS, START_NS + 7_200 * S)
WITHIN_5_MS = Cut("ttft", (5.0,), "gateway")


def insert(store: Store, rows: list[LedgerRow]) -> None:
    store.writer.insert_requests(rows, version=1)


def loads(store: Store, cut: Cut = WITHIN_5_MS, scope: dict[str, str] | None = None) -> dict[str, PoolLoad]:
    return {load.pool: load for load in store.replicas.load(WINDOW, cut, scope or {}, STEP_S)}


def test_requests_of_a_pool_are_counted_by_step_with_the_replicas_that_got_them(store: Store) -> None:
    insert(
        store,
        [
            row(number, pool="eu", replica=f"r{number % 2}", entry_start_ns=START_NS + number * S, cache_outcome="miss")
            for number in range(1, 11)
        ]
        + [row(20, pool="eu", replica="r0", entry_start_ns=START_NS + (STEP_S + 1) * S, cache_outcome="miss")]
        + [row(21, pool="us", replica="r9", entry_start_ns=START_NS, cache_outcome="bypass")],
    )
    by_pool = loads(store)
    assert sorted(by_pool) == ["eu", "us"]
    load = by_pool["eu"]
    assert load.start_ns.tolist() == [START_NS, START_NS + STEP_S * S]
    assert load.requests.tolist() == [10, 1]
    assert load.replicas.tolist() == [2, 1]
    assert load.model_ns.tolist() == [90 * MS, 9 * MS]
    assert load.prefill_ns.tolist() == [20 * MS, 2 * MS]
    assert load.decode_ns.tolist() == [70 * MS, 7 * MS]


def test_only_requests_in_scope_are_judged_and_all_of_them_are_load(store: Store) -> None:
    each = [("premium", 3), ("premium", 8), ("batch", 8), ("batch", None)]
    insert(
        store,
        [
            row(
                number,
                pool="eu",
                replica="r",
                tier=tier,
                ttft_ns=None if ttft_ms is None else ttft_ms * MS,
                entry_start_ns=START_NS + number,
                cache_outcome="miss",
            )
            for number, (tier, ttft_ms) in enumerate(each, 1)
        ],
    )
    scoped = loads(store, scope={"tier": "premium"})["eu"]
    assert (scoped.requests.tolist(), scoped.judged.tolist(), scoped.good.tolist()) == ([4], [2], [1])
    everything = loads(store)["eu"]
    assert (everything.judged.tolist(), everything.good.tolist()) == ([3], [1])
    answered = loads(store, Cut("availability"))["eu"]
    assert (answered.judged.tolist(), answered.good.tolist()) == ([4], [4])


def test_answers_that_reached_no_replica_are_no_load(store: Store) -> None:
    insert(
        store,
        [
            row(1, pool="eu", replica="r", cache_outcome="hit"),
            row(2, pool="eu", replica="r", cache_outcome="coalesced"),
            row(3, pool="eu", replica="", cache_outcome="miss", status="rejected"),
        ],
    )
    assert loads(store) == {}


def test_a_cut_without_its_threshold_is_refused() -> None:
    with pytest.raises(StoreInputError, match="cut has 0 thresholds: give 1"):
        UNASKED.replicas.load(WINDOW, Cut("e2e"), {})


def test_a_start_lasts_from_the_pods_creation_to_the_replicas_first_good_answer(store: Store) -> None:
    created_ns = START_NS + 60 * S
    for at_ns in (created_ns + 15 * S, created_ns + 30 * S):
        write(store, "kube_pod_created", [(at_ns, created_ns / S)], pod="chat-1", namespace="llm")
        write(store, "process_start_time_seconds", [(at_ns, created_ns / S + 10)], replica="chat-1", pool="eu")
    write(store, "process_start_time_seconds", [(created_ns, created_ns / S)], replica="new", pool="eu")
    early, failed, first, later = (
        row(number, pool="eu", replica="chat-1", cache_outcome="miss", entry_start_ns=created_ns + at_s * S, **status)
        for number, at_s, status in [(1, -5, {}), (2, 20, {"status": "error"}), (3, 45, {}), (4, 50, {})]
    )
    insert(store, [early, failed, first, later])
    assert store.replicas.starts(WINDOW) == [
        ReplicaStart("eu", "chat-1", created_ns, first.end_ns),
        ReplicaStart("", "new", created_ns, None),
    ]


def test_without_metrics_nothing_is_known_of_starts(store: Store) -> None:
    insert(store, [row(1, pool="eu", replica="chat-1", cold_start=True)])
    assert store.replicas.starts(WINDOW) == []
