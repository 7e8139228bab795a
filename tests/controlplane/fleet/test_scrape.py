"""What telemetry is told to scrape follows the fleet."""

import json
from pathlib import Path

import pytest

from controlplane.config import Config
from controlplane.fleet import scrape
from controlplane.fleet.models import Replica
from controlplane.telemetry.ingest.scrape.targets import of_fleet
from tests.support.stored_pool import stored_pool

pytestmark = pytest.mark.django_db(transaction=True)


def test_replicas_with_metrics_and_our_own_are_targets_from_the_commit_on(home: Path) -> None:
    near = stored_pool(region="here")
    Replica.objects.create(pool=near, name="one", grpc="127.0.0.1:8001", metrics="127.0.0.1:8002")
    Replica.objects.create(pool=near, name="two", grpc="127.0.0.1:9001")
    found = {target.job: target for target in of_fleet(home)}
    assert set(found) == {"gateway", "telemetry", "controller", "replica"}
    assert found["replica"].url == "http://127.0.0.1:8002/metrics"
    assert found["replica"].labels == {"replica": "one", "pool": "near", "variant": "chat-8b", "region": "here"}
    Replica.objects.all().delete()
    assert "replica" not in {target.job for target in of_fleet(home)}


def test_tokens_are_named_and_never_written(home: Path) -> None:
    config = Config(home=home, metrics_token="very-secret", otlp_token="secret-too")
    text = json.dumps(scrape.targets(config))
    assert "WEIR_METRICS_TOKEN" in text and "WEIR_OTLP_TOKEN" in text and "secret" not in text


def test_a_tenants_key_is_not_for_metrics(home: Path) -> None:
    (home / "gateway-key").write_text("secret")
    [gateway] = [target for target in scrape.targets(Config(home=home)) if target["job"] == "gateway"]
    assert gateway == {"job": "gateway", "url": "http://127.0.0.1:8080/metrics"}


def test_web_and_worker_are_targets_where_they_can_be_asked(home: Path) -> None:
    config = Config(home=home, web_url="http://web:8000", worker_metrics="worker:9464")
    assert {target["job"] for target in scrape.targets(config)} == {"gateway", "telemetry", "controller", "worker"}
    found = {
        str(target["job"]): target for target in scrape.targets(config.model_copy(update={"metrics_token": "m" * 32}))
    }
    assert found["web"]["url"] == "http://web:8000/metrics"
    assert found["worker"]["url"] == "http://worker:9464/metrics"
    own = ("web", "worker", "controller", "gateway")
    assert {found[job]["bearer_token_env"] for job in own} == {"WEIR_METRICS_TOKEN"}


def test_a_server_of_two_pools_is_one_target_with_the_labels_they_agree_on(home: Path) -> None:
    for model in ("large", "small"):
        pool = stored_pool(model, model, "here")
        Replica.objects.create(pool=pool, name="triton-0", grpc="127.0.0.1:8001", metrics="127.0.0.1:8002")
    [replica] = [target for target in of_fleet(home) if target.job == "replica"]
    assert replica.labels == {"replica": "triton-0", "region": "here"}
