"""The whole way: the fleet's rows, the components that really run, and what is written down."""

import json
import sys
import time
import urllib.request
from functools import partial
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django import Settings

from controlplane.controller.loop import Controller
from controlplane.fleet.models import GatewayKey, Observation, Pool, Replica, Tenant, Tier
from controlplane.fleet.observe.loop import observe_once
from controlplane.fleet.publish import publish
from controlplane.fleet.tasks import heartbeat
from controlplane.management.bootstrap import bootstrap
from controlplane.policy.observe.ended import ended
from controlplane.policy.observe.gateways import Gateways
from controlplane.slo.core.evaluation import Evaluation
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.sli import Availability
from controlplane.slo.save import save_objective
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.store import Store, access
from deploy.local.ports import free_port, free_ports
from deploy.local.process import Command, Managed, http_ok
from deploy.local.triton import Triton
from tests.support.gateway.process import serves
from tests.support.start import Start
from tests.support.wait import eventually

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def pool(home: Path, session_triton: Triton) -> Pool:
    """Set up as the launcher does it, around the session's Triton."""
    replica = {
        "name": "alive",
        "grpc": session_triton.grpc,
        "http": session_triton.http,
        "metrics": session_triton.metrics,
    }
    pool = {
        "name": "near",
        "variant": "chat-large",
        "region": "local",
        "model_name": "chat_large",
        "model_version": "1",
    }
    path = home / "fleet.json"
    path.write_text(json.dumps({"models": [{"name": "chat-large", "pools": [{**pool, "replicas": [replica]}]}]}))
    bootstrap(home, path)
    return Pool.objects.get()


def test_every_component_of_the_fleet_gets_its_verdict(pool: Pool, settings: Settings, redis_url: str) -> None:
    gateway, telemetry, grpc, http = free_ports(4)
    settings.CONFIG = settings.CONFIG.model_copy(
        update={"redis_url": redis_url, "gateway_url": f"http://127.0.0.1:{gateway}", "otlp_http_port": telemetry}
    )
    Replica.objects.create(pool=pool, name="dead", grpc=f"127.0.0.1:{grpc}", http=f"127.0.0.1:{http}")
    Replica.objects.create(pool=pool, name="unobservable", grpc="10.1.2.3:8001")
    observe_once()
    heartbeat()
    assert dict(Observation.objects.values_list("component", "state")) == {
        "gateway": "down",
        "redis": "up",
        "telemetry": "down",
        "near/alive": "up",
        "near/dead": "down",
        "near/unobservable": "degraded",
        "worker": "up",
    }


def works_off_nothing(http: int) -> bool:
    """Telemetry scrapes itself from its start on: the first samples wait until its store is up."""
    with urllib.request.urlopen(f"http://127.0.0.1:{http}/readyz", timeout=60) as answer:
        return bool(json.load(answer)["behind_s"] == 0)


def test_a_real_gateway_and_receiver_tell_everything_that_is_asked_of_them(
    pool: Pool, home: Path, settings: Settings, redis_url: str, start: Start
) -> None:
    gateway, http, grpc, port = free_ports(4)
    keys = [
        GatewayKey.objects.issue(Tenant.objects.create(name=tier, tier=Tier.objects.get(name=tier)), "ours")[1]
        for tier in ("standard", "premium")
    ]
    publish()
    env = {
        "WEIR_HOME": str(home),
        "WEIR_REDIS_URL": redis_url,
        "WEIR_STORE_DSN": "",
        "WEIR_GATEWAY_PORT": str(gateway),
        "WEIR_OTLP_HTTP_PORT": str(http),
        "WEIR_OTLP_GRPC_PORT": str(grpc),
        "WEIR_STORE_PORT": str(port),
    }

    def started(module: str, port: int, **more: str) -> Managed:
        ready = partial(http_ok, port, "/readyz")
        return start(Command(module, (sys.executable, "-m", module), ready, env={**env, **more}))

    started("inference", gateway, WEIR_OTLP_ENDPOINT=f"http://127.0.0.1:{http}", WEIR_OTLP_INTERVAL_MS="50")
    telemetry = started("controlplane.telemetry", http)
    settings.CONFIG = settings.CONFIG.model_copy(
        update={"redis_url": redis_url, "gateway_url": f"http://127.0.0.1:{gateway}", "otlp_http_port": http}
    )
    eventually(lambda: serves(gateway))
    eventually(lambda: works_off_nothing(http), within_s=360)
    observe_once()
    seen = {one.component: one for one in Observation.objects.all()}
    assert (seen["gateway"].state, seen["gateway"].error) == ("up", "")
    assert seen["gateway"].counters.keys() == {"requests", "errors", "rejected", "dropped_traces"}
    assert seen["gateway"].figures.keys() == {"in_flight", "waiting", "policy_version", "answer_ms"}
    assert (seen["telemetry"].state, seen["telemetry"].error) == ("up", "")
    assert seen["telemetry"].counters.keys() == {"requests", "spans", "errors"}
    assert seen["telemetry"].figures.keys() == {"lag_s", "behind_s", "spool_bytes", "answer_ms"}

    # Three requests whose spans telemetry refuses are not measured; two that it gets late are.
    url = f"http://127.0.0.1:{gateway}"
    save_objective(Objective("up", "Up", Availability(), 0.9), who="olga")
    store = Store(access.dsn(home, port))
    gateways = Gateways(lambda: [url], "", 0.1)
    gateways.start()
    controller = Controller(store, settings.CONFIG, lambda *_: None)
    controller.gateways = lambda: ended(gateways.traffic())

    def served(count: int, key: str) -> None:
        body = json.dumps({"model": "chat-large", "messages": [{"role": "user", "content": "Why?"}], "max_tokens": 2})
        for _ in range(count):
            asked = urllib.request.Request(
                f"{url}/v1/chat/completions", body.encode(), {"Authorization": f"Bearer {key}"}
            )
            urllib.request.urlopen(asked, timeout=60).close()

    def step() -> Evaluation:
        observe_once()
        gateways.wait(5)
        gateways.wait(5)
        evaluations = controller.step(timezone.now()).evaluations
        return next(one for one in evaluations if one.alert.objective.slug == "up")

    def measured() -> int:
        return sum(store.objectives.ended(Window(0, time.time_ns())).values())

    served(1, keys[1])
    eventually(lambda: measured() == 1)
    step()
    telemetry.stop()
    assert step().why.startswith("the ledger cannot be read")
    telemetry = started("controlplane.telemetry", http, WEIR_OTLP_TOKEN="another")
    served(3, keys[0])
    eventually(lambda: b"weir_gateway_traces_dropped_total 3.0" in urllib.request.urlopen(f"{url}/metrics").read())
    telemetry.stop()
    served(2, keys[0])
    started("controlplane.telemetry", http)
    eventually(lambda: measured() == 3)
    eventually(lambda: "ledger" not in step().why)
    gateways.stop()
    document = step().document()["unmeasured"]
    [gap] = document["gaps"]
    assert (document["requests"], gap["why"]) == (3, "the ledger cannot be read")


def test_a_gateway_without_replicas_and_redis_is_degraded_and_names_both(
    pool: Pool, home: Path, settings: Settings, start: Start
) -> None:
    pool.replicas.update(grpc=f"127.0.0.1:{free_port()}")
    publish()
    gateway, redis = free_ports(2)
    env = {"WEIR_HOME": str(home), "WEIR_REDIS_URL": f"redis://127.0.0.1:{redis}/0", "WEIR_GATEWAY_PORT": str(gateway)}
    start(Command("gateway", (sys.executable, "-m", "inference"), partial(http_ok, gateway, "/readyz"), env=env))
    settings.CONFIG = settings.CONFIG.model_copy(update={"gateway_url": f"http://127.0.0.1:{gateway}"})
    observe_once()
    seen = Observation.objects.get(component="gateway")
    assert seen.state == "degraded"
    assert seen.error == "no replica is up in pool near; it serves without its cache: Redis does not answer it"
