"""Workloads as owners enter them, and as `manage.py stack` renders them."""

from typing import Any

import pytest
import yaml
from django.core.exceptions import ValidationError
from django.core.management import CommandError
from django.test import Client
from django.urls import reverse

from controlplane.fleet.models import Cluster, Pool, Workload
from tests.support.commands import said
from tests.support.stored_pool import stored_pool

pytestmark = pytest.mark.django_db


@pytest.fixture
def pool() -> Pool:
    cluster = Cluster.objects.create(name="eu", namespace="serving")
    return stored_pool("chat-large-eu", "chat-large", "eu", cluster=cluster, model_name="chat_large")


def triton(served: Pool, **fields: Any) -> Workload:
    return Workload(
        **{
            "kind": "triton",
            "pool": served,
            "image": "tritonserver:25.08",
            "store_claim": "models",
            "backend": "python",
        }
        | fields
    )


def problems(workload: Workload) -> dict[str, str]:
    with pytest.raises(ValidationError) as caught:
        workload.full_clean()
    return {field: " ".join(messages) for field, messages in caught.value.message_dict.items()}


@pytest.mark.parametrize(
    ("fields", "field", "remedy"),
    [
        ({"image": "registry:5000/tritonserver"}, "image", "has no tag"),
        ({"store_claim": ""}, "store_claim", "Name the PersistentVolumeClaim"),
        ({"memory": "lots"}, "memory", "write one such as"),
        ({"default_priority": 4}, "default_priority", "from 1 to 3"),
        ({"max_replicas": 9}, "max_replicas", "Leave it 0"),
        ({"kind": "vllm"}, "kind", "choose the server that does"),
        ({"arguments": "--x"}, "arguments", "Write a list of texts"),
        ({"preferred_batch_sizes": [0]}, "preferred_batch_sizes", "sizes above zero"),
        ({"node_selector": {"gpu": 1}}, "node_selector", "Write texts by name"),
        ({"pool": None}, "pool", "Say which pool"),
    ],
)
def test_what_cannot_run_is_refused_with_the_remedy(
    pool: Pool, fields: dict[str, Any], field: str, remedy: str
) -> None:
    assert remedy in problems(triton(pool, **fields))[field]


def test_a_pool_outside_of_kubernetes_is_not_rendered(pool: Pool) -> None:
    Pool.objects.update(cluster=None)
    pool.refresh_from_db()
    assert "runs in no Kubernetes cluster" in problems(triton(pool))["pool"]


def test_a_configuration_that_depends_on_the_engine_is_not_written(pool: Pool) -> None:
    pool.signature = "trtllm_bls"
    assert "put the whole model repository into the store" in problems(triton(pool))["backend"]


def test_an_api_tier_needs_a_cluster_and_a_name() -> None:
    assert problems(Workload(kind="gateway", image="weir:1")).keys() == {"cluster", "name"}


def test_render_prints_what_the_admin_shows(pool: Pool, admin_client: Client) -> None:
    workload = triton(pool)
    workload.full_clean()
    workload.save()
    objects = list(yaml.safe_load_all(said("stack", "render")))
    assert [each["kind"] for each in objects] == ["ConfigMap", "Deployment", "Service", "PodDisruptionBudget"]
    assert {each["metadata"]["namespace"] for each in objects} == {"serving"}
    page = admin_client.get(reverse("admin:fleet_workload_change", args=[workload.pk])).content.decode()
    assert "kind: PodDisruptionBudget" in page


def test_without_a_workload_it_says_where_to_enter_one() -> None:
    with pytest.raises(CommandError, match="enter one in the admin"):
        said("stack", "render")


def test_workloads_of_a_disabled_cluster_are_left_alone(pool: Pool) -> None:
    triton(pool).save()
    Cluster.objects.update(enabled=False)
    with pytest.raises(CommandError, match="No workload"):
        said("stack", "render")
