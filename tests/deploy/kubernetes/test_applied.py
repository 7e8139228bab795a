"""The manifests of Weir on a real API server."""

import pytest

from tests.deploy.kubernetes.built import built
from tests.support.cluster.namespace import Namespace

OPERATORS = (
    "postgresql.cnpg.io",
    "clickhouse.altinity.com",
    "clickhouse-keeper.altinity.com",
    "redis.redis.opstreelabs.in",
)
"""Groups that exist where their operators are installed."""


@pytest.mark.parametrize("overlay", ["starter", "production"])
def test_a_server_takes_every_manifest(cluster: Namespace, overlay: str) -> None:
    try:
        for manifest in built(f"overlays/{overlay}"):
            if manifest["kind"] != "Namespace" and not manifest["apiVersion"].startswith(OPERATORS):
                manifest["metadata"]["namespace"] = cluster.name
                for subject in manifest.get("subjects", []):
                    subject["namespace"] = cluster.name
                cluster.create(manifest)
    finally:
        # Their pods would take the nodes' room from the tests that come after.
        cluster.apps.delete_collection_namespaced_deployment(cluster.name)
        cluster.apps.delete_collection_namespaced_stateful_set(cluster.name)
