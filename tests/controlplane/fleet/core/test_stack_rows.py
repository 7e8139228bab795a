"""The overview's rows: nothing is healthy by default."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.fleet.core.stack_rows import (
    Ledger,
    Observed,
    PoolEntry,
    ReplicaEntry,
    Row,
    State,
    judge,
    overall,
    rows,
)

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
STALE_AFTER_S = 20
POOL = PoolEntry("near", "chat", "chat-8b", "local", replicas=(ReplicaEntry("one"), ReplicaEntry("two")))


@dataclass(frozen=True)
class Health:
    requests: int
    errors: int = 0
    p95_ms: float | None = None
    newest_ns: int | None = None


def seen(component: str, state: str = "up", age_s: float = 3, **figures: float) -> Observed:
    return Observed(component, state, NOW - timedelta(seconds=age_s), figures, up_at=NOW - timedelta(hours=1))  # type: ignore[arg-type]


def table(*observed: Observed, pool: PoolEntry = POOL, ledger: Ledger | None = None) -> dict[str, Row]:
    return {row.component: row for row in rows([pool], observed, ledger, NOW, STALE_AFTER_S)}


def test_rows_come_in_the_order_in_which_a_request_meets_them() -> None:
    assert list(table()) == [
        "gateway",
        "redis",
        "telemetry",
        "worker",
        "controller",
        "pool:near",
        "near/one",
        "near/two",
    ]


def test_what_was_never_observed_is_unknown_and_says_what_to_do() -> None:
    found = table()
    assert {row.state for row in found.values()} == {"unknown"}
    assert "does the worker run?" in found["gateway"].detail


def test_what_was_observed_too_long_ago_is_stale_and_shows_no_figures() -> None:
    row = table(seen("gateway", age_s=STALE_AFTER_S + 1, requests_per_s=9))["gateway"]
    assert (row.state, row.rate_per_s, row.age_s) == ("stale", None, STALE_AFTER_S + 1)
    assert row.detail == "last seen up; the worker has not looked since"
    row = table(seen("worker", age_s=STALE_AFTER_S + 1))["worker"]
    assert row.detail == "last seen up; no task of it has run since", (
        "it may look all the same, while its broker is away"
    )


def test_each_kind_shows_what_it_does() -> None:
    found = table(seen("gateway", requests_per_s=4, errors_per_s=1), seen("redis", commands_per_s=70))
    assert (found["gateway"].rate_per_s, found["gateway"].errors_per_s) == (4, 1)
    assert found["redis"].rate_per_s == 70
    assert table(seen("redis", "down", commands_per_s=9))["redis"].rate_per_s is None
    assert table(ledger=Ledger(60, None, {}, {}))["pool:near"].rate_per_s == 0
    assert table(ledger=None)["pool:near"].rate_per_s is None


def test_a_pool_has_its_rate_and_p95_from_the_ledger() -> None:
    newest = int((NOW - timedelta(seconds=2)).timestamp() * 1e9)
    ledger = Ledger(
        60,
        Health(300, p95_ms=80),
        {"near": Health(120, 6, 95.5, newest)},
        {("near", "one"): Health(120, 6, 91), ("far", "two"): Health(9, 0, 7)},
    )
    found = table(seen("near/one"), seen("near/two", age_s=9), ledger=ledger)
    row = found["pool:near"]
    assert (row.state, row.rate_per_s, row.errors_per_s, row.p95_ms) == ("up", 2, 0.1, 95.5)
    assert row.traffic_age_s == pytest.approx(2, abs=0.01)
    assert row.age_s == 9, "that of its oldest observation"
    assert (found["near/one"].p95_ms, found["near/two"].p95_ms, found["gateway"].p95_ms) == (91, None, 80)
    assert (found["near/one"].errors_per_s, found["near/two"].errors_per_s) == (0.1, 0)


@pytest.mark.parametrize(
    ("one", "two", "state", "detail"),
    [
        ({}, {"state": "down"}, "degraded", "1 of 2 replicas up · chat-8b of chat in local"),
        ({"age_s": 60}, {"age_s": 60}, "stale", "0 of 2 replicas up, 2 not known ·"),
    ],
)
def test_a_pool_says_how_many_of_its_replicas_are_up(one: Any, two: Any, state: str, detail: str) -> None:
    """Those that nobody has looked at lately are not counted as down."""
    row = table(seen("near/one", **one), seen("near/two", **two))["pool:near"]
    assert (row.state, row.detail[: len(detail)]) == (state, detail)


def test_a_replica_that_has_never_been_up_is_starting_and_its_pool_is_not_degraded_by_it() -> None:
    new = replace(seen("near/two", "down"), up_at=None, down_since=NOW - timedelta(seconds=200))
    found = table(seen("near/one"), new)
    assert found["near/two"].state == "starting"
    assert (found["pool:near"].state, found["pool:near"].detail[:27]) == ("up", "1 of 2 replicas up, 1 start")
    late = replace(new, down_since=NOW - timedelta(seconds=301))
    back = replace(new, up_at=NOW - timedelta(seconds=250))
    for down in (late, back):
        found = table(seen("near/one"), down)
        assert (found["near/two"].state, found["pool:near"].state) == ("down", "degraded")


def test_disabled_replicas_do_not_count() -> None:
    pool = PoolEntry(
        "near", "chat", "chat-8b", "local", replicas=(ReplicaEntry("one"), ReplicaEntry("two", enabled=False))
    )
    found = table(seen("near/one"), pool=pool)
    assert found["pool:near"].state == "up"
    assert "near/two" not in found


def test_a_pool_without_replicas_says_what_to_do() -> None:
    row = table(pool=PoolEntry("near", "chat", "chat-8b", "local"))["pool:near"]
    assert (row.state, row.detail) == ("unknown", "no replica: add one in the admin · chat-8b of chat in local")


def test_a_replica_says_which_server_it_is() -> None:
    observed = replace(seen("near/one", "degraded"), server="vLLM 0.32.0", error="no answer within 2 s")
    assert table(observed)["near/one"].detail == "vLLM 0.32.0 · no answer within 2 s"


states = st.sampled_from(get_args(State))


@given(st.lists(states, min_size=1))
def test_a_pool_is_up_only_when_every_replica_is(found: list[State]) -> None:
    assert (overall(found) == "up") == ("up" in found and set(found) <= {"up", "starting"})


@given(st.lists(states, min_size=1))
def test_a_pool_is_down_only_when_no_replica_serves(found: list[State]) -> None:
    if overall(found) == "down":
        assert not {"up", "degraded"} & set(found)


@given(st.sampled_from(["up", "degraded", "down"]), st.floats(0, 1e6))
def test_nothing_stale_is_believed(state: str, age_s: float) -> None:
    judged, _ = judge(seen("x", state, age_s), NOW, STALE_AFTER_S)
    age_s = (NOW - seen("x", state, age_s).observed_at).total_seconds()
    assert judged == (state if age_s <= STALE_AFTER_S else "stale")
