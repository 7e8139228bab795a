"""The whole way: the fleet's rows, the components that really run, and what is written down."""

from pathlib import Path

import pytest
from pytest_django import Settings

from controlplane.fleet.models import LLMModel, Observation, Pool, Region, Replica, Variant
from controlplane.fleet.observe.loop import observe_once
from controlplane.fleet.tasks import heartbeat
from deploy.local.ports import free_port
from deploy.local.triton import Triton

pytestmark = pytest.mark.django_db(transaction=True)


def test_every_component_of_the_fleet_is_seen(
    home: Path, settings: Settings, redis_url: str, session_triton: Triton
) -> None:
    settings.CONFIG = settings.CONFIG.model_copy(
        update={"redis_url": redis_url, "gateway_url": f"http://127.0.0.1:{free_port()}", "otlp_http_port": free_port()}
    )
    variant = Variant.objects.create(name="chat-large", model=LLMModel.objects.create(name="chat-large"))
    pool = Pool.objects.create(
        name="near", variant=variant, region=Region.objects.create(name="local"), model_name="chat_large"
    )
    Replica.objects.create(
        pool=pool, name="alive", grpc=session_triton.grpc, http=session_triton.http, metrics=session_triton.metrics
    )
    Replica.objects.create(pool=pool, name="dead", grpc=f"127.0.0.1:{free_port()}", http=f"127.0.0.1:{free_port()}")
    Replica.objects.create(pool=pool, name="unobservable", grpc="10.1.2.3:8001")
    observe_once()
    heartbeat()
    states = dict(Observation.objects.values_list("component", "state"))
    assert states == {
        "gateway": "down",
        "redis": "up",
        "telemetry": "down",
        "near/alive": "up",
        "near/dead": "down",
        "worker": "up",
    }
