"""What GPUs a cluster has, by the types that pools name."""

import pytest

from controlplane.fleet.clusters.port import SLOTS, ClusterSeen, GpusSeen
from controlplane.policy.core.observation import Gpus
from controlplane.policy.observe.gather import _cluster


@pytest.mark.parametrize(
    ("resource", "free"),
    [(SLOTS, {"h100": Gpus(36, 24), "cpu": Gpus(9, 6)}), ("nvidia.com/gpu", {"h100": Gpus(9, 6), "cpu": Gpus(9, 6)})],
)
def test_a_slot_is_the_place_of_a_replica_however_many_gpus_that_has(resource: str, free: dict[str, Gpus]) -> None:
    seen = ClusterSeen("local", seen_ms=0, gpus={resource: GpusSeen(allocatable=9, requested=6)})
    assert _cluster(seen, {"h100": 4, "cpu": 1}, 0).gpus == free
