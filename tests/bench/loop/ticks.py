"""How long a tick takes with 200 models: each with a pool of three replicas, a scaling policy, a ladder and objectives of three tiers.
The cluster is in memory. A tenth of the pools changes its traffic in each tick, as hard as it gets: most of their ticks have a record.
"""

import random
import time
from collections.abc import Iterator
from statistics import median

from django.utils import timezone

from controlplane.fleet.models import Cluster
from controlplane.fleet.publish import publish
from controlplane.policy.engine import Engine, Leader
from controlplane.policy.models import DecisionRecord, PolicyRevision
from controlplane.policy.observe.core.traffic import Traffic
from controlplane.policy.observe.gather import Background
from controlplane.policy.observe.planned import Planned, PoolKnown
from controlplane.slo.models import ObjectiveState, StoredObjective
from forecasting.capacity.assumptions import ReplicaCapacity
from inference.contract.gateway_signals import GatewaySignals, ModelSignals, Obeyed, PoolSignals, ReplicaSignals
from tests.bench.figures import Figure, say
from tests.bench.loop.control import ladder, pools, scaling
from tests.support.policy.cluster import ClusterInMemory

MODELS, REPLICAS, TICKS = 200, 3, 30
TIERS = ("batch", "standard", "premium")
CAPACITY_RPS = 10.0


def measured() -> Iterator[Figure]:
    names = [f"model-{number:03}" for number in range(MODELS)]
    pools("memory", "local", names)
    for name in names:
        scaling(name, min=1, max=8)
        ladder(name, TIERS[:2])
    _objectives(names)
    cluster = ClusterInMemory("memory")
    for name in names:
        cluster.add(name, REPLICAS)
    took_s = _ticks(names, cluster)
    say(f"{MODELS} models: median {median(took_s):.3f} s of {len(took_s)} ticks, worst {max(took_s):.3f} s")
    yield Figure("loop.tick_200_models_s", median(took_s), "s", "at most 2 s")
    yield Figure("loop.tick_200_models_worst_s", max(took_s), "s", f"of {len(took_s)} ticks")
    sizes = [len(row.packed) for row in DecisionRecord.objects.all()]
    yield Figure("loop.record_200_models_bytes", median(sizes), "B", "as it is stored")
    PolicyRevision.objects.update(state=PolicyRevision.State.RETIRED)
    Cluster.objects.update(enabled=False)


def _objectives(names: list[str]) -> None:
    objectives = StoredObjective.objects.bulk_create(
        [StoredObjective(slug=name, name=name, target=0.99) for name in names]
    )
    verdicts = [{"long_s": 3_600, "short_s": 300, "long": 0.4, "short": 0.3}]
    document = {"verdicts": verdicts, "budget": {"left_share": 0.7}, "sli": 0.998}
    ObjectiveState.objects.bulk_create(
        [
            ObjectiveState(
                objective=objective,
                key=f"{objective.slug}/{tier}",
                scope={"model": objective.slug, "tier": tier},
                at=timezone.now(),
                state="quiet",
                since=timezone.now(),
                document=document,
            )
            for objective in objectives
            for tier in TIERS
        ]
    )


def _ticks(names: list[str], cluster: ClusterInMemory) -> list[float]:
    chance = random.Random(7)
    rps = dict.fromkeys(names, 15.0)
    totals = dict.fromkeys(names, 0.0)
    known = Planned(
        0, {name: PoolKnown("gpu", 1, 2.0, ReplicaCapacity(CAPACITY_RPS, "ledger", slots=8), 60.0) for name in names}
    )
    traffic, now_ms = Traffic(), int(time.time() * 1_000)
    publish()
    engine = Engine(lambda: Background(traffic, known), lambda: {"memory": cluster}, threads=True)
    leader = Leader("bench", 1, lambda: None)
    took_s = []
    for number in range(TICKS):
        now_ms += 1_000
        cluster.now_ms = now_ms
        for name in chance.sample(names, MODELS // 10):
            rps[name] = chance.uniform(5, 60)
        for name in names:
            totals[name] += rps[name]
        traffic = traffic.next(now_ms, {"http://gateway": _signals(totals, cluster, now_ms)})
        ticked = engine.tick(leader, now_ms)
        if number >= TICKS // 3:  # conditions are compiled, and the first rates are known
            took_s.append(ticked.took_s)
    engine.stop()
    return took_s


def _signals(totals: dict[str, float], cluster: ClusterInMemory, now_ms: int) -> GatewaySignals:
    return GatewaySignals(
        at_ms=now_ms,
        started_ms=0,
        gateway="bench",
        region="bench",
        requests=int(sum(totals.values())),
        cpu_s=0.0,
        snapshot=Obeyed(1, 10**6, 10**6),
        pools={
            name: PoolSignals(
                arrived=int(total),
                answered=int(total),
                replicas={
                    replica.name: ReplicaSignals(up=True, age_s=0.5, running=2.0, waiting=0.0, kv_use=0.3)
                    for replica in cluster.workloads[name].replicas
                },
            )
            for name, total in totals.items()
        },
        models={name: {tier: ModelSignals(arrived=int(total / 3)) for tier in TIERS} for name, total in totals.items()},
    )
