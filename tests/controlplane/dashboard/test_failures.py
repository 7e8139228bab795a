"""Errors stand beside latency and before it, with their reasons: an outage never looks like an improvement."""

import re
import time
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client

from controlplane.telemetry.core.query_types import LatencyReport
from controlplane.telemetry.query import answers
from controlplane.telemetry.store import Store
from tests.support.telemetry.samples import S, row
from tests.support.web.html import page_of, words_of

FROM_NS = time.time_ns() - 9 * 3600 * S
FAST = {"stages": {"queue": 0, "model": 0, "gateway": 100_000}, "status": "error", "http_status": 503}


@pytest.fixture
def outage(annexed: Store) -> dict[str, str]:
    """Answers of 10 ms, and from the middle on failures of 0.1 ms; the parameters that ask for them."""
    rows = [row(3 * 10**7 + n, entry_start_ns=FROM_NS + n * S) for n in range(20)]
    rows += [
        row(3 * 10**7 + n, entry_start_ns=FROM_NS + n * S, error_type="no_replica", error_stage="model", **FAST)
        for n in range(20, 60)
    ]
    rows += [row(3 * 10**7 + 60, entry_start_ns=FROM_NS + 55 * S, status="cancelled")]
    annexed.writer.insert_requests(rows, 1)
    return {"from": str(FROM_NS), "to": str(FROM_NS + 70 * S)}


def test_errors_come_first_with_their_reasons_and_latency_is_of_what_was_answered(
    reader: Client, outage: dict[str, str]
) -> None:
    shown = page_of(reader, "/latency", **outage)
    said = words_of(shown)
    assert "✕ 40 of 61 requests failed (66 %): 40 no_replica (503) in model." in said
    assert "Of the 20 of 61 requests that were answered; 1 was cancelled by the client." in said
    assert said.index("failed (66") < said.index("p95 10.0 ms")
    assert "µs" not in said.split("By stage")[0]


@pytest.mark.parametrize("late", [-3, 3])
def test_failures_that_come_between_two_reads_are_counted_once(
    reader: Client, outage: dict[str, str], monkeypatch: pytest.MonkeyPatch, late: int
) -> None:
    """The report was read earlier or later than the reasons: one number is shown, and the parts add up to the whole."""
    read = answers.report

    def at_another_moment(*given: Any) -> LatencyReport:
        report = read(*given)
        return replace(report, errors=report.errors - late, requests=report.requests - late)

    monkeypatch.setattr(answers, "report", at_another_moment)
    said = words_of(page_of(reader, "/latency", **outage))
    assert "✕ 40 of 61 requests failed (66 %): 40 no_replica (503) in model." in said
    assert "Of the 20 of 61 requests that were answered; 1 was cancelled by the client." in said


def test_a_reason_leads_to_its_requests(reader: Client, outage: dict[str, str]) -> None:
    shown = page_of(reader, "/latency", **outage)
    [query] = re.findall(r'href="/requests\?([^"]*error\.type[^"]*)"', shown)
    assert "status=error" in query


def test_where_nothing_was_answered_there_is_no_latency(reader: Client, outage: dict[str, str]) -> None:
    said = words_of(page_of(reader, "/latency", **outage, status="error"))
    assert "✕ 40 of 40 requests failed (100 %)" in said
    assert "None of 40 requests was answered: there is no latency to show." in said
    table = page_of(reader, "/latency/table", **outage, status="error")
    assert "<td" in table
    assert "µs" not in table


def test_the_overview_says_why_requests_failed(reader: Client, outage: dict[str, str]) -> None:
    said = words_of(page_of(reader, "/", **outage))
    assert "40 requests: 40 no_replica (503) in model" in said
    assert "E2E p95 10.0 ms" in said


def test_groups_that_answered_nothing_come_first(reader: Client, outage: dict[str, str]) -> None:
    shown = page_of(reader, "/latency", **outage, by="status")
    table = shown[shown.index('aria-label="By status"') :]
    assert re.findall(r"data-go>(ok|error|cancelled)</a>", table)[-1] == "ok"
