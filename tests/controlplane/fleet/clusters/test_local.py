"""Pools as the launcher of one machine has them."""

import pytest

from controlplane.fleet.clusters import local
from controlplane.fleet.clusters.port import HAND, WEIR, PoolBinding
from controlplane.fleet.core.local_cluster import LocalPool


@pytest.mark.parametrize(
    ("set_by", "owner", "by"), [("launcher", WEIR, ""), ("weir", WEIR, "weir"), ("me", HAND, "me")]
)
def test_a_launcher_that_starts_again_takes_no_count_away_from_weir(set_by: str, owner: str, by: str) -> None:
    seen = local._pool(PoolBinding("p", "p", "triton"), LocalPool(name="p", wanted=2, set_by=set_by, replicas=()))
    assert (seen.owner_of_count, seen.count_set_by) == (owner, by)
