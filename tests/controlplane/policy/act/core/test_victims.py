"""Which replicas go, and which would go in their place."""

from hypothesis import given
from hypothesis import strategies as st

from controlplane.fleet.clusters.port import PoolSeen, ReplicaSeen
from controlplane.policy.act.core.victims import ahead, victims


def _replica(name: str, created_ms: int, *, ready: bool = True, pending: str = "") -> ReplicaSeen:
    return ReplicaSeen(name, "chat", "http://10.0.0.1/v1", created_ms=created_ms, ready=ready, pending_reason=pending)


READY, STARTING, PENDING = (
    _replica("ready", 1),
    _replica("starting", 2, ready=False),
    _replica("pending", 3, ready=False, pending="Unschedulable"),
)


def test_those_that_are_not_ready_go_first_and_would_go_in_the_place_of_ready_ones() -> None:
    seen = PoolSeen("chat", 3, replicas=(READY, STARTING, PENDING))
    assert [replica.name for replica in victims(seen, 3, lambda _: 0.0)] == ["pending", "starting", "ready"]
    assert ahead(seen, {"ready"}) == ["starting", "pending"]
    assert ahead(seen, {"starting"}) == ["pending"]
    assert ahead(seen, {"pending"}) == ahead(seen, set()) == []


@given(
    st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.sampled_from(["", "Unschedulable"])), max_size=8),
    st.integers(0, 8),
)
def test_none_goes_in_the_place_of_those_that_are_chosen_now(kinds: list[tuple[int, bool, str]], count: int) -> None:
    replicas = tuple(
        _replica(str(index), created, ready=ready and not pending, pending=pending)
        for index, (created, ready, pending) in enumerate(kinds)
    )
    seen = PoolSeen("chat", len(replicas), replicas=replicas)
    chosen = {replica.name for replica in victims(seen, count, lambda _: 0.0)}
    assert len(chosen) == min(count, len(replicas))
    assert ahead(seen, chosen) == []
