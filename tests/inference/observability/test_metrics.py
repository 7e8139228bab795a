"""The metrics page."""

import time

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from inference.contract.metrics_access import may_read_metrics
from inference.contract.snapshot import Snapshot
from tests.support.gateway.process import KEY, SMALL, Gateway, StartGateway, unique

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


@pytest.mark.parametrize("accept", ["text/plain", OPENMETRICS])
async def test_both_formats_can_be_read_and_count_requests(gateway: Gateway, accept: str) -> None:
    await gateway.client().chat.completions.create(model=SMALL, messages=unique(), max_tokens=2)
    status, headers, page = gateway.ask("GET", "/metrics", None, headers={"Accept": accept})
    assert status == 200
    assert headers["content-type"].startswith(accept)
    families = {family.name: family for family in (parse_openmetrics if accept == OPENMETRICS else parse_text)(page)}
    assert any(
        sample.labels["model"] == SMALL and sample.labels["status"] == "ok" and sample.value >= 1
        for sample in families["weir_gateway_requests"].samples
        if sample.name == "weir_gateway_requests_total"
    )
    duration = families["weir_gateway_request_duration_seconds"].samples
    count = {sample.labels["cache"]: sample.value for sample in duration if sample.name.endswith("_count")}
    infinite = {sample.labels["cache"]: sample.value for sample in duration if sample.labels.get("le") == "+Inf"}
    assert count == infinite
    assert sum(count.values()) >= 1


async def test_a_bucket_leads_to_the_trace_of_its_newest_request(gateway: Gateway) -> None:
    trace_id, began_s = "0123456789abcdef" * 2, time.time()
    await gateway.client().chat.completions.create(
        model=SMALL,
        messages=unique(),
        max_tokens=2,
        extra_headers={"traceparent": f"00-{trace_id}-{'1' * 16}-01"},
    )
    _, _, page = gateway.ask("GET", "/metrics", None, headers={"Accept": OPENMETRICS})
    [found] = [
        sample.exemplar
        for family in parse_openmetrics(page)
        for sample in family.samples
        if sample.name == "weir_gateway_request_duration_seconds_bucket"
        and sample.exemplar
        and sample.exemplar.labels["trace_id"] == trace_id
    ]
    assert began_s <= float(found.timestamp) <= time.time()
    assert 0 < found.value <= float(found.timestamp) - began_s + 0.001


def test_a_token_of_its_own_may_read_metrics_and_nothing_else(start_gateway: StartGateway, snapshot: Snapshot) -> None:
    gateway = start_gateway(snapshot, metrics_token="scraper")
    assert gateway.get("/metrics", key="scraper")[0] == 200
    assert gateway.get("/v1/models", key="scraper")[0] == 401
    for key in (KEY, "", "scrape"):
        assert gateway.get("/metrics", key=key)[0] == 401, key


@pytest.mark.parametrize(
    ("token", "peer", "headers", "may"),
    [
        ("", "127.0.0.1", {}, True),
        ("", "::1", {}, True),
        ("", "::ffff:127.0.0.1", {}, True),
        ("", "10.0.0.7", {}, False),
        ("", "10.0.0.7", {b"authorization": b"Bearer " + KEY.encode()}, False),
        ("", "127.0.0.1", {b"x-forwarded-for": b"10.0.0.7"}, False),
        *(
            ("", "127.0.0.1", {name: b"x"}, False)
            for name in (b"via", b"x-real-ip", b"x-forwarded-proto", b"forwarded")
        ),
        ("", "127.0.0.1", {b"host": b"weir.example.com"}, False),
        ("", "127.0.0.1", {b"host": b"127.0.0.1.nip.io:8080"}, False),
        *(("", "127.0.0.1", {b"host": host}, True) for host in (b"127.0.0.1:8080", b"LOCALHOST", b"[::1]:8080")),
        ("", "127.0.0.1", {b"forwarded": b"for=10.0.0.7"}, False),
        ("", "", {}, False),
        ("", "127.0.0.1", {b"authorization": b"Bearer "}, True),
        ("scraper", "127.0.0.1", {}, False),
        ("scraper", "10.0.0.7", {b"authorization": b"Bearer scraper"}, True),
        ("scraper", "127.0.0.1", {b"authorization": b"Bearer " + KEY.encode()}, False),
    ],
)
def test_without_a_token_only_this_machine_reads_metrics(
    token: str, peer: str, headers: dict[bytes, bytes], may: bool
) -> None:
    assert may_read_metrics(token, peer, headers) is may


def test_a_proxy_on_this_machine_does_not_open_metrics_to_others(gateway: Gateway) -> None:
    assert gateway.get("/metrics", key="")[0] == 200
    assert gateway.get("/metrics", headers={"X-Forwarded-For": "10.0.0.7"})[0] == 401
