"""What telemetry is told to scrape follows the fleet."""

import json
from pathlib import Path

import pytest

from controlplane.config import Config
from controlplane.fleet import scrape
from controlplane.fleet.models import LLMModel, Pool, Region, Replica, Variant
from controlplane.telemetry.metrics.scrape.targets import of_fleet

pytestmark = pytest.mark.django_db(transaction=True)


def test_replicas_with_metrics_and_our_own_are_targets_from_the_commit_on(home: Path) -> None:
    variant = Variant.objects.create(name="chat-8b", model=LLMModel.objects.create(name="chat"))
    near = Pool.objects.create(
        name="near", variant=variant, region=Region.objects.create(name="here"), model_name="chat"
    )
    Replica.objects.create(pool=near, name="one", grpc="127.0.0.1:8001", metrics="127.0.0.1:8002")
    Replica.objects.create(pool=near, name="two", grpc="127.0.0.1:9001")
    found = {target.job: target for target in of_fleet(home)}
    assert set(found) == {"gateway", "telemetry", "replica"}
    assert found["replica"].url == "http://127.0.0.1:8002/metrics"
    assert found["replica"].labels == {"replica": "one", "pool": "near", "variant": "chat-8b", "region": "here"}
    Replica.objects.all().delete()
    assert "replica" not in {target.job for target in of_fleet(home)}


def test_tokens_are_named_and_never_written(home: Path) -> None:
    config = Config(home=home, metrics_token="very-secret", otlp_token="secret-too")
    text = json.dumps(scrape.targets(config))
    assert "WEIR_METRICS_TOKEN" in text and "WEIR_OTLP_TOKEN" in text and "secret" not in text
    (home / "gateway-key").write_text("secret")
    assert str(home / "gateway-key") in json.dumps(scrape.targets(Config(home=home)))
