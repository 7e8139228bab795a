"""The panel that says what is different about the slow requests."""

import re

import pytest
from django.test import Client

from controlplane.telemetry.query import answers
from controlplane.telemetry.store.read import sample
from controlplane.telemetry.store.read.retained import Kept
from tests.support.web.html import page_of, words_of
from tests.support.web.served import Filled


def panel(reader: Client, **parameters: str | int) -> str:
    return page_of(reader, "/latency/explain", **parameters)


def test_it_says_in_a_sentence_what_the_slow_ones_share_and_leads_to_traces_that_exist(
    reader: Client, served: Filled
) -> None:
    found = panel(reader, **served.range)
    said = words_of(found)
    assert "above p95" in said
    assert re.search(r"model chat-large accounts for [\d.]+ %:", said), said
    assert "Most in queue" in said, said
    assert 'class="fill-queue"' in found
    assert re.search(r"\d+ requests · the same as .*pool chat-large-local", said)
    assert re.search(rf'href="/latency\?from={served.from_ns}&to={served.to_ns}&model=chat-large"', found)
    traces = re.findall(r'href="/traces/([0-9a-f]{32})"', found)
    assert traces
    assert set(traces) <= {row.trace_id for row in served.rows}
    assert "above p50" in words_of(panel(reader, **served.range, q="p50"))


def test_it_says_that_it_read_a_sample(reader: Client, served: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "sample" not in words_of(panel(reader, **served.range))
    monkeypatch.setattr(sample, "MAX_READ", len(served.rows) // 4)
    said = words_of(panel(reader, **served.range))
    assert "Of a sample: one request in 16 was read, and counts are of these." in said
    assert "Causes are of one request in 16 of these pools" in said


def test_it_says_from_when_on_it_has_requests_where_the_rest_of_the_range_is_rollups(
    reader: Client, served: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    day_ns = 86_400 * 10**9
    week = {"from": str(served.to_ns - 7 * day_ns), "to": str(served.to_ns)}
    assert "of the time before" not in words_of(panel(reader, **week))
    monkeypatch.setattr(answers, "kept", lambda: Kept(served.from_ns, served.from_ns - 9 * day_ns))
    assert re.search(
        r"Of requests since \d{4}-\d\d-\d\d \d\d:\d\d UTC: of the time before", words_of(panel(reader, **week))
    )
    assert "of the time before" not in words_of(panel(reader, **served.range))


def test_a_region_is_named_and_can_be_lifted(reader: Client, served: Filled) -> None:
    said = words_of(
        panel(reader, **served.range, e2e_from_ms=2000, region_from=served.from_ns, region_to=served.to_ns - 1)
    )
    assert "of at least 2.00 s, entered " in said
    assert "Lift the region" in said
    assert "Lift the region" not in words_of(panel(reader, **served.range))


def test_a_filter_that_leaves_nothing_to_tell_says_why(reader: Client, served: Filled) -> None:
    said = words_of(panel(reader, **{"from": "2026-01-01", "to": "2026-01-02"}))
    assert "No answered request of this range is stored." in said and "Requests above p95." in said
    assert "None of the requests is among the chosen." in words_of(
        panel(reader, **served.range, slower_than_ms=900_000_000)
    )
    assert "nothing to compare" in words_of(panel(reader, **served.range, slower_than_ms="0.000001"))


@pytest.mark.parametrize("query", ["above=p42", "slower_than_ms=soon", "region_from=now-5m"])
def test_a_bad_region_is_explained_in_place(reader: Client, served: Filled, query: str) -> None:
    response = reader.get(f"/latency/explain?{query}", headers={"hx-request": "true"})
    assert response.status_code == 400
    assert "<html" not in response.content.decode()
