"""What is seen of a real cluster, and that it is kept up to date without a question."""

from controlplane.fleet.clusters.port import GpusSeen
from tests.support.cluster.namespace import Namespace
from tests.support.cluster.objects import autoscaler, deployment, gpu_quota, service
from tests.support.cluster.opened import opened, wait_for
from tests.support.wait import eventually


def test_a_pool_is_seen_with_its_replicas_and_a_missing_workload_is_named(hollow: Namespace) -> None:
    hollow.create(deployment("chat", 2))
    with opened(hollow.kubeconfig, hollow.name, "chat", "nowhere") as cluster:
        pool = wait_for(cluster, "chat", lambda pool: sum(replica.ready for replica in pool.replicas) == 2)
        eventually(lambda: cluster.seen().watching)
        seen = cluster.seen()
    assert (pool.wanted, pool.owner_of_count, pool.autoscaler, pool.problem) == (2, "weir", None, "")
    assert all(replica.address.startswith("http://") for replica in pool.replicas)
    assert seen.problem == "" and seen.age_ms is not None
    assert "There is no Deployment “nowhere”" in seen.pools["nowhere"].problem
    assert seen.pools["nowhere"].wanted is None


def test_a_replica_becomes_ready_once_its_model_is_loaded(hollow: Namespace) -> None:
    hollow.create(deployment("chat", 1, gated=True, ports={"http": 8123, "metrics": 9000}))
    with opened(hollow.kubeconfig, hollow.name, "chat") as cluster:
        pool = wait_for(cluster, "chat", lambda pool: bool(pool.replicas) and pool.replicas[0].address != "")
        replica = pool.replicas[0]
        assert not replica.ready and replica.pending_reason == ""
        assert replica.address.endswith(":8123/v1") and replica.metrics.endswith(":9000")
        hollow.open_gate(replica.name)
        wait_for(cluster, "chat", lambda pool: pool.replicas[0].ready)


def test_a_replica_without_a_gpu_says_why_and_since_when(hollow: Namespace) -> None:
    hollow.create(deployment("chat", 2, gpus=8))
    with opened(hollow.kubeconfig, hollow.name, "chat") as cluster:
        pool = wait_for(cluster, "chat", lambda pool: [bool(it.pending_reason) for it in pool.replicas] == [True, True])
        assert "Insufficient nvidia.com/gpu" in pool.replicas[0].pending_reason
        assert pool.replicas[0].pending_since_ms


def test_gpus_are_those_of_the_nodes_and_fewer_where_a_quota_says_so(hollow: Namespace) -> None:
    hollow.create(deployment("chat", 3, gpus=1))
    with opened(hollow.kubeconfig, hollow.name, "chat") as cluster:
        wait_for(cluster, "chat", lambda pool: sum(replica.ready for replica in pool.replicas) == 3)
        eventually(lambda: cluster.seen().gpus["nvidia.com/gpu"] == GpusSeen(8, 3), lambda: cluster.seen().gpus)
        hollow.create(gpu_quota("gpus", 4))
        eventually(lambda: cluster.seen().gpus["nvidia.com/gpu"].allocatable == 4)
        assert cluster.seen().gpus["nvidia.com/gpu"].requested == 3
        nowhere = deployment("nowhere", 1, gpus=1)
        nowhere["spec"]["template"]["spec"]["nodeSelector"] = {"gpu": "h200"}
        hollow.create(nowhere)
        eventually(lambda: cluster.seen().gpus["nvidia.com/gpu"] == GpusSeen(4, 4, waiting_too=True))


def test_an_autoscaler_is_seen(hollow: Namespace) -> None:
    hollow.create(deployment("chat", 3), autoscaler("cpu", "chat", 2, 9))
    with opened(hollow.kubeconfig, hollow.name, "chat") as cluster:
        pool = wait_for(cluster, "chat", lambda pool: pool.autoscaler is not None)
    assert pool.owner_of_count == "hpa:cpu" and pool.autoscaler
    assert (pool.autoscaler.min_replicas, pool.autoscaler.max_replicas, pool.autoscaler.owner_min_replicas) == (2, 9, 2)


def test_gateways_are_those_of_their_service_that_are_ready(hollow: Namespace) -> None:
    hollow.create(deployment("gateway", 1, gated=True), service("weir-gateway", "gateway", http=8080))
    with opened(hollow.kubeconfig, hollow.name) as cluster:
        eventually(lambda: cluster.seen().seen_ms is not None)
        hollow.has_pods("gateway", 1)
        assert cluster.seen().gateways == ()
        hollow.open_gate(hollow.pods("gateway")[0].metadata.name)
        eventually(lambda: len(cluster.seen().gateways) == 1)
        assert cluster.seen().gateways[0].startswith("http://") and cluster.seen().gateways[0].endswith(":8080")


def test_a_port_that_only_a_service_names_is_the_replicas_port(hollow: Namespace) -> None:
    hollow.create(deployment("chat", 1), service("chat", "chat", http=8555))
    with opened(hollow.kubeconfig, hollow.name, "chat") as cluster:
        wait_for(cluster, "chat", lambda pool: [it.address.endswith(":8555/v1") for it in pool.replicas] == [True])


def test_a_hand_that_sets_the_count_is_noticed_and_nobody_else(hollow: Namespace) -> None:
    hollow.create(deployment("chat", 1))
    with opened(hollow.kubeconfig, hollow.name, "chat") as cluster:
        pool = wait_for(cluster, "chat", lambda pool: pool.wanted == 1)
        hollow.set_count("chat", 2)
        pool = wait_for(cluster, "chat", lambda pool: pool.wanted == 2)
        assert pool.owner_of_count == "weir"  # Weir has never set it
        cluster.scale("chat", 3, token=pool.token, generation=1)
        pool = wait_for(cluster, "chat", lambda pool: pool.wanted == 3)
        assert (pool.owner_of_count, pool.count_set_by) == ("weir", "weir")
        hollow.set_count("chat", 4, manager="kubectl-edit")
        pool = wait_for(cluster, "chat", lambda pool: pool.wanted == 4)
        assert (pool.owner_of_count, pool.count_set_by) == ("hand", "kubectl-edit")
        cluster.scale("chat", 4, token=pool.token, generation=1)  # adopts the count as it is
        wait_for(cluster, "chat", lambda pool: pool.owner_of_count == "weir" and pool.wanted == 4)


def test_gateways_are_scaled_like_a_pool(hollow: Namespace) -> None:
    tier = deployment("weir-gateway", 2)
    tier["metadata"]["labels"] = {"weir.dev/component": "gateway"}
    hollow.create(tier, deployment("chat", 1))
    with opened(hollow.kubeconfig, hollow.name) as cluster:
        pool = wait_for(cluster, "gateway:weir-gateway", lambda pool: pool.wanted == 2)
        assert list(cluster.seen().pools) == ["gateway:weir-gateway"]
        cluster.scale("gateway:weir-gateway", 3, token=pool.token, generation=1)
        assert hollow.count("weir-gateway") == 3
