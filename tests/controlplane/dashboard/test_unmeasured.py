"""Where a server's spans are missing, its queue and the network to it are not measured: that is said, and is not zero."""

import time

import pytest
from django.test import Client

from controlplane.telemetry.ledger.row import Attempt
from controlplane.telemetry.store import Store
from tests.support.telemetry.samples import S, row
from tests.support.web.html import page_of, words_of

FROM_NS = time.time_ns() - 7 * 3600 * S
FAILED = Attempt("small-eu", "one", "error", "unavailable", retried=True, ns=5_970_000_000, model_ns=5_970_000_000)


@pytest.fixture
def lost(annexed: Store) -> dict[str, str]:
    """Of the tenant `half` half the requests lack the server's spans, of `all` all."""
    rows = [
        row(
            6 * 10**7 + n,
            entry_start_ns=FROM_NS + n * S,
            tenant="half" if n < 20 else "all",
            unmeasured=n >= 10,
            stages={"queue": 13_000},
            attempts=(FAILED, Attempt("small-eu", "two", "ok", "", retried=False, ns=9_000_000, model_ns=9_000_000)),
        )
        for n in range(40)
    ]
    annexed.writer.insert_requests(rows, 1)
    return {"from": str(FROM_NS), "to": str(FROM_NS + 60 * S)}


def test_the_latency_page_says_what_was_not_measured(reader: Client, lost: dict[str, str]) -> None:
    said = words_of(page_of(reader, "/latency", **lost, tenant="half"))
    assert "Of 10 of 20 answered requests the server's spans are missing" in said
    assert "queue ≥ 13.0 µs" in said
    said = words_of(page_of(reader, "/latency", **lost, tenant="all"))
    assert "network not measured" in said
    assert "queue ≥ 13.0 µs" in said
    assert "≥" not in words_of(page_of(reader, "/latency", **lost, tenant="nobody"))


def test_the_api_has_null_and_not_zero_and_marks_lower_bounds(caller: Client, lost: dict[str, str]) -> None:
    found = caller.get("/api/v1/latency", {**lost, "tenant": "all"}).json()
    assert found["unmeasured"] == found["answered"] == 20
    network, queue, cache = (found["stages"][stage] for stage in ("network", "queue", "cache"))
    assert set(network.values()) == {None, False}
    assert (queue["p50_ms"], queue["lower_bound"]) == (0.013, True)
    assert (cache["p50_ms"], cache["lower_bound"]) == (0, False)
    found = caller.get("/api/v1/latency", {**lost, "tenant": "half", "group_by": "tenant"}).json()
    for report in (found, found["groups"]["half"]):
        bounds = {stage for stage, figures in report["stages"].items() if figures["lower_bound"]}
        assert bounds == {"queue", "network"}
    found = caller.get("/api/v1/latency", {**lost, "tenant": "nobody"}).json()
    assert not any(figures["lower_bound"] for figures in found["stages"].values())


def test_a_trace_says_it_of_its_own_request_and_names_each_attempt(reader: Client, lost: dict[str, str]) -> None:
    said = words_of(page_of(reader, f"/traces/{6 * 10**7 + 30:032x}"))
    assert "network not measured" in said
    assert "at the server not measured" in said
    assert "The server's spans are missing" in said
    assert "one: unavailable after 5.97 s, tried again" in said
    assert "failed attempts" in said
    assert "not measured" not in words_of(page_of(reader, f"/traces/{6 * 10**7 + 1:032x}"))
