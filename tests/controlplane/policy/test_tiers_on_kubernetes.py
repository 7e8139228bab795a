"""The API tier over a real API server: from what its gateways say of their requests and CPU to the count of their Deployment."""

from pathlib import Path
from typing import Any

import pytest

from controlplane.fleet.models import Cluster
from controlplane.policy.models import Action
from tests.support.cluster.namespace import Namespace
from tests.support.cluster.objects import deployment
from tests.support.cluster.rehearsed import rehearsal, scale_writes
from tests.support.policy.world import CLUSTER, revision

pytestmark = pytest.mark.django_db(transaction=True)


def _tier(name: str, port: int) -> dict[str, Any]:
    made = deployment(name, 2, ports={"http": port})
    made["metadata"]["labels"] = {"weir.dev/component": "gateway"}
    return made


def _policy(name: str, reactive: str) -> None:
    text = f"""\
        apiVersion: weir/v1
        kind: Scaling
        metadata: {{name: {name}}}
        spec:
          gateway: {name}
          max: 12
          reactive: {reactive}
          scale_down: {{stabilisation_s: 1, cooldown_s: 0, max_step: 12}}
    """
    revision(text, name=name)


def test_each_tier_follows_its_own_requests_and_cpu(hollow: Namespace, tmp_path: Path) -> None:
    Cluster.objects.create(name=CLUSTER, kind="kubernetes")
    hollow.create(_tier("by-rate", 8080), _tier("by-cpu", 8081))
    _policy("by-rate", "{replica_rps: 100}")
    _policy("by-cpu", "{cpu_use: 0.5}")
    with rehearsal(hollow, tmp_path) as (real, proxy):
        real.tiers = {"by-rate": (150.0, 0.2), "by-cpu": (150.0, 0.8)}
        real.until(lambda: real.settled("gateway:by-rate", 2) and real.settled("gateway:by-cpu", 2))
        real.tiers = {"by-rate": (460.0, 0.2), "by-cpu": (460.0, 1.8)}
        real.until(lambda: hollow.count("by-rate") >= 5 and real.settled("gateway:by-cpu", 4))
        most = hollow.count("by-rate")
        real.tiers = {"by-rate": (10.0, 0.2), "by-cpu": (10.0, 1.8)}
        real.until(lambda: hollow.count("by-rate") < most and real.settled("gateway:by-rate", hollow.count("by-rate")))
        assert hollow.count("by-cpu") == 4
        down = Action.objects.filter(pool="gateway:by-rate", kind="down")
        assert {(action.step, action.endpoints_version) for action in down} == {("done", None)}, (
            "a gateway drains itself"
        )
        assert scale_writes(proxy) == Action.objects.exclude(accepted_at=None).count()
