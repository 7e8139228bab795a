"""A filter of several values is kept and shown, and each value can be taken away; and no filter makes the ledger look stale."""

import re
import time
from urllib.parse import parse_qs

import pytest
from django.test import Client

from controlplane.telemetry.store import Store
from tests.support.telemetry.samples import S, row
from tests.support.web.html import page_of
from tests.support.web.served import Filled


def form(page: str) -> dict[str, list[str]]:
    """What a submitted filter bar would ask for."""
    bar = page[page.index('<form id="filters"') :].partition("</form>")[0]
    asked: dict[str, list[str]] = {}
    for tag in re.findall(r"<input[^>]*type=\"hidden\"[^>]*>", bar):
        [(name, value)] = re.findall(r'name="([^"]*)" value="([^"]*)"', tag)
        asked.setdefault(name, []).append(value)
    for name, options in re.findall(r'<select name="([^"]*)"[^>]*>(.*?)</select>', bar, re.S):
        for value in re.findall(r'value="([^"]+)" selected', options):
            asked.setdefault(name, []).append(value)
    return asked


@pytest.mark.parametrize("path", ["/latency", "/requests"])
def test_both_values_of_a_filter_outlive_the_next_click(reader: Client, served: Filled, path: str) -> None:
    page = page_of(reader, path, **served.range, cache=["hit", "miss"], tier="premium", order="slowest")
    asked = form(page)
    assert (asked["cache"], asked["tier"]) == (["hit", "miss"], ["premium"])


def test_each_value_can_be_taken_away_and_the_rest_stays(reader: Client, served: Filled) -> None:
    page = page_of(reader, "/requests", **served.range, cache=["hit", "miss"], replica=["a", "b"], order="slowest")
    queries = [parse_qs(query) for query in re.findall(r'class="match" href="/requests\?([^"]*)"', page)]
    assert [(query.get("cache"), query.get("replica")) for query in queries] == [
        (["miss"], ["a", "b"]),
        (["hit"], ["a", "b"]),
        (["hit", "miss"], ["b"]),
        (["hit", "miss"], ["a"]),
    ]
    assert all(query["order"] == ["slowest"] for query in queries)


def test_lengths_of_prompts_are_offered_from_the_shortest_on(reader: Client, served: Filled) -> None:
    page = page_of(reader, "/requests", **served.range)
    [options] = re.findall(r'<select name="prompt_bucket"[^>]*>(.*?)</select>', page, re.S)
    starts = [int(start) for start in re.findall(r'value="(\d+)', options)]
    assert len(starts) > 2 and starts == sorted(starts)


def test_requests_are_found_by_the_length_of_their_prompt_and_a_refused_one_has_a_least_one(
    reader: Client, annexed: Store
) -> None:
    now_ns = time.time_ns()
    lengths = {1: 4_000, 2: 4_001, 3: 33_006, 4: None}
    refused = {"status": "rejected", "error_type": "context_length_exceeded", "error_stage": "tokenizer"}
    annexed.writer.insert_requests(
        [
            row(
                6 * 10**7 + number,
                entry_start_ns=now_ns - S,
                prompt_tokens=tokens,
                model="long",
                **(refused if tokens == 33_006 else {}),
            )
            for number, tokens in lengths.items()
        ],
        1,
    )
    page = page_of(reader, "/requests", model="long", attribute="tokens > 4000")
    assert page.count('id="row-') == 2
    assert "4,001" in page.replace("\u202f", ",") and "≥ 33,006" in page.replace("\u202f", ",")
    assert '<input type="hidden" name="tokens" value=">4000">' in page
    assert 'title="Remove this condition">tokens >4000' in page


def test_a_filter_that_few_requests_pass_makes_no_page_stale(reader: Client, annexed: Store) -> None:
    now_ns = time.time_ns()
    annexed.writer.insert_requests(
        [
            row(5 * 10**7, entry_start_ns=now_ns - 2 * S),
            row(5 * 10**7 + 1, entry_start_ns=now_ns - 800 * S, tenant="rare"),
        ],
        1,
    )
    for path in ("/latency", "/requests"):
        page = page_of(reader, path, tenant="rare")
        assert '<p class="freshness fresh"' in page
        assert "newest with these filters ended" in page
        page = page_of(reader, path, tenant="nobody")
        assert '<p class="freshness fresh"' in page
        assert "none in this range with these filters" in page
