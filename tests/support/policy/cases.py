"""Policies and observations to decide about."""

from typing import Any

from msgspec import structs

from controlplane.core.documents.writing import write_yaml
from controlplane.policy.core.document import digest_of, read_single
from controlplane.policy.core.memory import TargetMemory
from controlplane.policy.core.observation import ClusterFacts, Observation, PoolFacts
from controlplane.policy.core.rails.case import Case, Verdict
from controlplane.policy.core.spec import InForce, Scaling

NOW_MS = 1_790_000_000_000
POOL = "chat-eu"


def policy(kind: str, spec: dict[str, Any], name: str = "p", id_: int = 1) -> InForce:
    """A policy in force, read from its document as an owner's is."""
    text = write_yaml({"apiVersion": "weir/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})
    read, problems = read_single(text)
    assert read is not None, [problem.text() for problem in problems]
    return InForce(id_, 1, digest_of(read), read)


def scaling(**spec: Any) -> InForce:
    return policy("Scaling", {"pool": POOL, "max": 10, **spec}, "scale")


def pool(**facts: Any) -> PoolFacts:
    """A pool with 4 ready replicas of 10 requests/s each, everything fresh."""
    whole = PoolFacts(
        POOL,
        model="chat",
        cluster="eu",
        gpu="h100",
        gpus_per_replica=2,
        arrived_rps=25.0,
        waiting=0.0,
        queue_delay_s=0.0,
        in_flight=8.0,
        wanted=4,
        ready=4,
        starting=0,
        draining=0,
        pending=0,
        capacity_rps=10.0,
        slots=8,
        traffic_age_ms=500,
        servers_age_ms=500,
        cluster_age_ms=500,
        reachable=True,
    )
    return structs.replace(whole, **facts)


def seen(*pools: PoolFacts, now_ms: int = NOW_MS, **facts: Any) -> Observation:
    clusters = facts.pop("clusters", {"eu": ClusterFacts("eu", 500)})
    return Observation(now_ms, {each.pool: each for each in pools}, clusters=clusters, **facts)


def case(facts: PoolFacts | None = None, *, spec: dict[str, Any] | None = None, **others: Any) -> Case:
    """What rails judge."""
    document = scaling(**(spec or {})).policy
    assert isinstance(document, Scaling)
    return Case(NOW_MS, document.spec, facts or pool(), **{"memory": TargetMemory(), **others})


def judged(verdict: Verdict | None) -> tuple[int, str]:
    """The count, and the kind of its alarm; a verdict has a reason."""
    assert verdict is not None
    assert verdict.reason
    return verdict.replicas, verdict.alarm.kind if verdict.alarm else ""
