"""What Prometheus reads."""

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from inference.snapshot import Snapshot
from tests.inference.conftest import StartGateway
from tests.inference.running import SMALL, Gateway, unique

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


def test_a_token_of_its_own_may_read_metrics_and_nothing_else(start_gateway: StartGateway, snapshot: Snapshot) -> None:
    gateway = start_gateway(snapshot, metrics_token="scraper")
    assert gateway.get("/metrics", key="scraper")[0] == 200
    assert gateway.get("/v1/models", key="scraper")[0] == 401
