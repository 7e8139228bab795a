"""What is narrowed to can be seen: a region's upper bound, requests of which something is not known, the heatmap as a table."""

import html
import re
import time
from collections import Counter
from urllib.parse import parse_qsl

from django.test import Client

from controlplane.telemetry.store import Store
from tests.support.telemetry.samples import S, row
from tests.support.web.html import page_of
from tests.support.web.served import Filled


def test_requests_can_be_bounded_on_both_sides(reader: Client, caller: Client, served: Filled) -> None:
    bounds = {"min_ms": "300.5", "max_ms": "400"}
    inside = [one for one in served.rows if 300_500_000 <= one.e2e_ns < 400_000_000]
    shown = page_of(reader, "/requests", **served.range, **bounds, limit=200)
    assert shown.count("<tr data-row") == len(inside) > 0
    assert re.search(r"at least <strong>30[01]\u202fms</strong> and below <strong>400\u202fms", shown)
    found = caller.get("/api/v1/requests", served.range | bounds | {"limit": "1000"}).json()
    assert {one["request_id"] for one in found["rows"]} == {one.request_id for one in inside}
    exported = [
        dict(parse_qsl(query)) for query in re.findall(r'href="/api/v1/requests\.(?:csv|parquet)\?([^"]*)"', shown)
    ]
    assert len(exported) == 2 and all(query.items() >= bounds.items() for query in exported)


def test_the_way_to_what_is_stored_keeps_the_page_s_settings(reader: Client, served: Filled) -> None:
    before = {"from": str(served.from_ns - 1_800 * 10**9), "to": str(served.from_ns - 900 * 10**9)}
    settings = {"by": "pool", "across": "tier", "compare": "previous"}
    shown = page_of(reader, "/latency", **before, **settings)
    [way] = re.findall(r'The ledger has requests from <a href="/latency\?([^"]*)"', shown)
    assert settings.items() <= dict(parse_qsl(way)).items()


def test_the_length_of_a_page_stays_on_the_next_one(reader: Client, served: Filled) -> None:
    shown = page_of(reader, "/requests", **served.range, limit=10, order="slowest")
    [following] = re.findall(r'\?([^"]*cursor=[^"]*)"', shown)
    assert {"limit": "10", "order": "slowest"}.items() <= dict(parse_qsl(following)).items()


def test_an_attribute_of_a_span_leads_to_all_requests_that_have_it(
    reader: Client, caller: Client, served: Filled
) -> None:
    one = next(row for row in served.rows if row.tenant == "support")
    shown = page_of(reader, f"/traces/{one.trace_id}")
    link = next(found for found in re.findall(r'href="/requests\?([^"]*)"', shown) if "weir.tenant" in found)
    query = dict(parse_qsl(link))
    assert query["attribute"] == "weir.tenant=support"
    alike = page_of(reader, "/requests", **served.range, attribute=query["attribute"], limit=200)
    assert alike.count("<tr data-row") == min(200, len(served.of(tenant="support"))) > 1
    assert 'title="Remove this condition">weir.tenant=support' in alike
    inner = {"attribute": ["triton.model_name=chat-small", "weir.tenant=support"]}
    found = caller.get("/api/v1/requests", served.range | inner | {"limit": "1000"}).json()["rows"]
    misses = [row for row in served.of(tenant="support", model="chat-small") if row.cache_outcome == "miss"]
    assert {row["request_id"] for row in found} == {row.request_id for row in misses}


def test_the_panel_of_a_region_leads_to_its_requests_alone(reader: Client, served: Filled) -> None:
    shown = page_of(reader, "/latency/explain", **served.range, e2e_from_ms="0.000001", e2e_to_ms="900000", q="p50")
    assert "nothing to compare" in shown
    few = page_of(reader, "/latency/explain", **served.range, e2e_from_ms="0.5", e2e_to_ms="2.51", model="chat-small")
    links = re.findall(r'href="(/requests\?[^"]*)"', few)
    assert all("max_ms=2.51" in link and "min_ms=0.5" in link for link in links)


def test_the_heatmap_is_a_table_too_and_each_cell_leads_to_its_requests(reader: Client, served: Filled) -> None:
    shown = page_of(reader, "/latency/table", **served.range, view="heatmap")
    cells = re.findall(r'href="/requests\?([^"]*)">[^<]*</a></th>(.*?)</tr>', shown)
    assert cells
    counts = [int(re.findall(r'class="n">([\d\u202f]+)</td>', cell)[0]) for _, cell in cells]
    assert sum(counts) == len(served.answered)
    query, _ = cells[0]
    asked = dict(pair.split("=") for pair in query.split("&"))
    assert page_of(reader, "/requests", **asked).count("<tr data-row") == counts[0]


def test_requests_of_which_something_is_not_known_can_be_asked_for(
    reader: Client, caller: Client, annexed: Store
) -> None:
    from_ns = time.time_ns() - 5 * 3600 * S
    rows = [row(2 * 10**7 + n, entry_start_ns=from_ns + n * S, tenant="" if n % 3 else "acme") for n in range(30)]
    annexed.writer.insert_requests(rows, 1)
    window = {"from": str(from_ns), "to": str(from_ns + 60 * S)}
    assert caller.get("/api/v1/latency", window | {"tenant": "(unknown)"}).json()["requests"] == 20
    assert caller.get("/api/v1/latency", window | {"tenant": ["(unknown)", "acme"]}).json()["requests"] == 30
    shown = page_of(reader, "/latency", **window, by="tenant")
    [query] = re.findall(r'href="/latency\?([^"]*)" data-go><span class="muted">unknown</span>', shown)
    assert "tenant=%28unknown%29" in query
    narrowed = html.unescape(reader.get(f"/latency?{query}").content.decode())
    assert re.search(r'<option value="\(unknown\)" selected>', narrowed)
    assert re.search(r"20\s+requests", narrowed)


def test_groups_by_two_dimensions_lead_to_the_requests_of_a_pair_and_count_the_rest(
    reader: Client, served: Filled
) -> None:
    shown = page_of(reader, "/latency", **served.range, by="prompt_bucket", across="tenant")
    section = shown.partition('<section class="groups panel"')[2].partition("</section>")[0]
    pairs = Counter((each.prompt_bucket, each.tenant) for each in served.rows)
    links = [dict(parse_qsl(link)) for link in re.findall(r'<th scope="row"><a href="/latency\?([^"]*)"', section)]
    led = {(link["prompt_bucket"], link["tenant"]) for link in links}
    assert len(links) == len(led) == min(20, len(pairs)) and led <= pairs.keys()
    others = re.search(r"Others: (\d+) rarer pairs?, of ([\d\u202f]+)\s+requests", section)
    assert (int(others[1]) if others else 0) == len(pairs) - len(links)
    assert all(link["across"] == "tenant" and link["by"] == "prompt_bucket" for link in links)
