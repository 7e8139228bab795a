"""An HPA sets the count of a pool beside Weir, under each word of `other_owner`: nobody fights, and people hear of it."""

import time
from typing import Any

from tests.bench.figures import say
from tests.support.cluster.killed import set_by_a_person
from tests.support.cluster.namespace import Namespace
from tests.support.cluster.objects import autoscaler
from tests.support.cluster.proxy import Proxy
from tests.support.cluster.rehearsed import QUICK, Counts, RealWorld, scale_writes
from tests.support.policy.world import revision, scaling

POOL, HPA = "other-1", "beside"
OWN, MAX_REPLICAS = 3, 16
LOW, HIGH = 2, 13


def autoscaler_beside(seen: Any, world: RealWorld, space: Namespace, proxy: Proxy, counts: Counts) -> None:
    """It comes, is left alone and noticed (`stop`, `adopt`), has its floor raised and lowered (`cooperate`), and is deleted."""
    counts.clear()
    writes = scale_writes(proxy, POOL)
    space.create(autoscaler(HPA, POOL, OWN, MAX_REPLICAS))
    world.until(lambda: space.count(POOL) == OWN, 60)  # an HPA looks every 15 s
    for number, word in enumerate(("stop", "adopt"), 2):
        _policy(word, number)
        world.faults.clear()
        set_by_a_person(POOL, HIGH if word == "stop" else LOW)
        seen.recovered_s[f"hpa_noticed_{word}"] = world.until(lambda: "owner" in world.faults)
        _pass(world, 5.0)
        seen.wrong_counts += counts.of(POOL)[-1] != OWN
    _policy("cooperate", 4)
    set_by_a_person(POOL, HIGH)
    seen.recovered_s["hpa_floor_raised"] = world.until(
        lambda: _floor(space) > OWN and space.count(POOL) == _floor(space), 60
    )
    raised = _floor(space)
    set_by_a_person(POOL, LOW)
    seen.recovered_s["hpa_floor_lowered"] = world.until(lambda: _floor(space) == OWN, 60)
    _set_floor(space, OWN + 2)
    _pass(world, 5.0)
    seen.wrong_counts += _floor(space) != OWN + 2  # what its owner sets is never gone below
    set_by_a_person(POOL, HIGH)
    world.until(lambda: _floor(space) > OWN + 2, 60)
    _retire()
    seen.recovered_s["hpa_floor_returned"] = world.until(lambda: _floor(space) == OWN + 2, 60)
    set_by_a_person(POOL, LOW)
    seen.double_writes += scale_writes(proxy, POOL) - writes
    say(f"beside an HPA: counts {counts.of(POOL)}, floor {OWN} → {raised} → {OWN}, then {_floor(space)} by its owner")
    space.scaling.delete_namespaced_horizontal_pod_autoscaler(HPA, space.name)
    _policy("adopt", 5)
    seen.recovered_s["hpa_deleted"] = world.until(lambda: world.settled(POOL, 2), 120)


def _retire() -> None:
    from controlplane.policy.models import PolicyRevision

    PolicyRevision.objects.filter(name=POOL, state="active").update(state="retired")


def _policy(word: str, number: int) -> None:
    _retire()
    revision(scaling(**{**QUICK, "pool": POOL, "max": MAX_REPLICAS, "other_owner": word}), name=POOL, number=number)


def _floor(space: Namespace) -> int:
    return int(space.scaling.read_namespaced_horizontal_pod_autoscaler(HPA, space.name).spec.min_replicas)


def _set_floor(space: Namespace, least: int) -> None:
    """As its owner does."""
    space.scaling.patch_namespaced_horizontal_pod_autoscaler(
        HPA, space.name, {"spec": {"minReplicas": least}}, field_manager="kubectl-edit"
    )


def _pass(world: RealWorld, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        world.tick()
