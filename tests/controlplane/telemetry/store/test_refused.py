"""Requests that no replica was there for, and the attempts that replicas failed, as the known causes are told."""

from controlplane.telemetry.ledger.row import Attempt
from controlplane.telemetry.store import Store
from tests.support.telemetry.samples import HOUR, row

GONE = {"status": "error", "http_status": 503, "error_type": "service_unavailable", "error_stage": "model"}


def test_a_request_refused_without_a_replica_is_told_from_one_that_a_replica_failed(store: Store) -> None:
    failed = Attempt("small-eu", "one", "error", "unreachable", retried=True, ns=5, model_ns=5)
    answered = Attempt("small-eu", "two", "ok", "", retried=False, ns=9, model_ns=9)
    rows = [
        *(row(number, attempts=(failed, answered), replica="two") for number in range(1, 31)),
        *(row(number, replica="", **GONE) for number in range(31, 51)),
        row(51, replica="one", **GONE),
    ]
    store.writer.insert_requests(rows, version=1)
    figures = store.causes.pool_figures(HOUR)
    assert sum(one.refused for one in figures) == 20
    assert sum(one.failed for one in figures) == 21
    assert sum(one.requests for one in figures) == 30
    assert sum(one.e2e_ns for one in figures) == 30 * 10_000_000
    told = [
        (one.replica, one.attempts, one.failed, one.model_ns)
        for one in store.causes.attempt_figures(HOUR, ["small-eu"])
    ]
    assert told == [("one", 30, 30, 0), ("two", 30, 0, 270)]
