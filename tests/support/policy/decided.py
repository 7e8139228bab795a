"""Half an hour of decisions in the database, as ticks leave them: a burst, the ladder, a canary, and a revision in shadow."""

import math
import time
from datetime import UTC, datetime, timedelta

import msgspec

from controlplane.fleet.models import Observation as FleetObservation
from controlplane.policy.core.decide import decide
from controlplane.policy.core.decision import Decision
from controlplane.policy.core.document import digest_of
from controlplane.policy.core.observation import (
    Arm,
    CanaryCounts,
    ClusterFacts,
    GatewayFacts,
    Gpus,
    ModelFacts,
    Observation,
    PoolFacts,
    PoolPlan,
    Stratum,
    TierFacts,
)
from controlplane.policy.core.record import record_of
from controlplane.policy.core.spec import InForce, Policy
from controlplane.policy.models import Action, DecisionRecord, PolicyRevision
from controlplane.policy.models import Memory as StoredMemory
from controlplane.policy.write_records import DecisionTrack

STEP_S = 30
STEPS = 60
LARGE, SMALL, CANDIDATE = "chat-large-local", "chat-small-local", "chat-large-fp8"

SCALING = """apiVersion: weir/v1
kind: Scaling
metadata:
  name: scale-{pool}
  team: serving
  description: Keeps {pool} within its objective.
spec:
  pool: {pool}
  min: 1
  max: {max}
  warm_floor: 1
  objective: chat-fast
  reactive:
    utilisation: {utilisation}
  scale_down:
    stabilisation_s: 120
    cooldown_s: 60
"""
LADDER = """apiVersion: weir/v1
kind: Degradation
metadata:
  name: ladder-chat-large
  team: serving
spec:
  model: chat-large
  tiers: [batch, standard]
  steps:
    - name: shorter-answers
      enter: queue_delay_s > 1.0
      exit: queue_delay_s < 0.4
      max_output_tokens: 256
      partial: true
      cost: {requests_share: 0.31, note: answers end early}
    - name: shed
      enter: queue_delay_s > 3.0
      exit: queue_delay_s < 1.0
      shed: {retry_after_s: 20}
"""
CANARY = """apiVersion: weir/v1
kind: Canary
metadata: {name: try-fp8, team: serving}
spec:
  model: chat-large
  baseline: chat-large-local
  candidate: chat-large-fp8
  steps: [5, 25, 50]
  max_requests: 3000
"""


def policy(text: str) -> Policy:
    decoded: Policy = msgspec.yaml.decode(text, type=Policy)
    return decoded


def revision(text: str, number: int = 1, **changes: object) -> PolicyRevision:
    """A revision in the database."""
    document = policy(text)
    values = {"state": "active", "author": "olga", "activated_by": "piet", "activated_at": datetime.now(UTC)}
    return PolicyRevision.objects.create(
        name=document.metadata.name,
        kind=type(document).__name__,
        number=number,
        text=text,
        team=document.metadata.team,
        **(values | changes),
    )


def in_force(row: PolicyRevision) -> InForce:
    its = policy(row.text)
    return InForce(row.pk, row.number, digest_of(its), its)


def observation(step: int, now_ms: int, since_ms: int, counts: dict[str, int]) -> Observation:
    """The load of a burst whose peak is after a third of the time."""
    load = 2.0 + 9.0 * math.exp(-(((step - 20) / 9) ** 2))
    delay_s = 3.6 * math.exp(-(((step - 18) / 6) ** 2))
    pools = {
        name: PoolFacts(
            pool=name,
            model=model,
            variant=f"{model}-fp16",
            region="local",
            cluster="local",
            gpu="h100",
            gpus_per_replica=2,
            usd_per_replica_hour=8.4,
            arrived_rps=round(load * share, 3),
            input_tokens=410.0,
            output_tokens=180.0,
            waiting=round(delay_s * 4 * share, 2),
            queue_delay_s=round(delay_s * share, 3),
            running=round(load * share * 2, 2),
            in_flight=round(load * share * 2, 2),
            kv_use=min(0.98, round(0.2 + load * share / 14, 3)),
            wanted=counts[name],
            ready=counts[name],
            starting=0,
            draining=0,
            pending=0,
            capacity_rps=2.4,
            capacity_source="ledger",
            cold_start_s=41.0,
            objective="chat-fast",
            traffic_age_ms=700,
            servers_age_ms=1_900,
            cluster_age_ms=300,
            capacity_age_ms=3_600_000,
            reachable=True,
        )
        for name, model, share in ((LARGE, "chat-large", 1.0), (SMALL, "chat-small", 0.5))
    }
    pools[CANDIDATE] = PoolFacts(CANDIDATE, model="chat-large", wanted=1, ready=1, cluster_age_ms=300)
    tiers = {
        name: TierFacts(
            tier=name,
            objective="chat-fast",
            burn_rate_fast=round(delay_s * 5, 2),
            burn_rate_slow=round(delay_s, 2),
            budget_left=0.62,
            unmeasured_s=600,
            attainment=0.987,
            arrived_rps=2.0,
            age_ms=4_000,
        )
        for name in ("batch", "standard", "premium")
    }
    served = max(0, (step - 5) * 40)
    return Observation(
        now_ms=now_ms,
        pools=pools,
        models={"chat-large": ModelFacts(model="chat-large", pools=(LARGE,), tiers=tiers)},
        gateways=(GatewayFacts("http://127.0.0.1:8080", age_ms=650),),
        clusters={"local": ClusterFacts("local", age_ms=300, gpus={"h100": Gpus(16, 6)})},
        plans={
            LARGE: PoolPlan(
                pool=LARGE,
                made_at_ms=now_ms - 240_000,
                start_ms=now_ms - 240_000,
                step_ms=300_000,
                horizon_ms=60_000,
                warm=(1, 2, 2),
                started=(2, 2, 2),
                forecaster="seasonal_day",
                skill=0.38,
                level=0.9,
                reason="P90 of 4.1 requests/s in the next 60 s",
            )
        },
        canaries={
            "try-fp8": CanaryCounts(
                since_ms=since_ms,
                until_ms=now_ms - 60_000,
                strata=(
                    Stratum(
                        candidate=Arm(served, served // 100, served - served // 100, served // 19, served // 60),
                        baseline=Arm(
                            served * 9, served // 11, served * 9 - served // 11, served * 9 // 20, served // 7
                        ),
                    ),
                ),
                candidate_ms=812.0,
                baseline_ms=803.0,
                age_ms=4_000,
            )
        },
    )


def store(steps: int = STEPS, now: datetime | None = None) -> list[DecisionRecord]:
    """Decide each of the first `steps` with the real judge, and store it; the last is now. Returns the rows, the oldest first.

    At the 24th both lower tiers are degraded.
    """
    now = now or datetime.fromtimestamp(int(time.time()), UTC)
    revisions = [
        revision(SCALING.format(pool=LARGE, max=5, utilisation=0.8)),
        revision(SCALING.format(pool=SMALL, max=3, utilisation=0.8)),
        revision(LADDER),
        revision(CANARY),
    ]
    bolder = revision(
        SCALING.format(pool=LARGE, max=8, utilisation=0.5),
        2,
        state="shadow",
        shadow_since=now - timedelta(seconds=STEP_S * steps),
        activated_at=None,
    )
    policies = [in_force(row) for row in revisions]
    shadows = [in_force(bolder), *policies[1:]]
    track, shadow_track = DecisionTrack(StoredMemory.ACTIVE), DecisionTrack(StoredMemory.SHADOW)
    counts = {LARGE: 1, SMALL: 1}
    rows = []
    start = now - timedelta(seconds=STEP_S * (steps - 1))
    for step in range(steps):
        at = start + timedelta(seconds=STEP_S * step)
        now_ms = int(at.timestamp() * 1000)
        canary = track.memory.canaries.get("try-fp8")
        seen = observation(step, now_ms, canary.entered[0][0] if canary else now_ms, counts)
        decision = decide(seen, policies, track.memory)
        record = record_of(seen, policies, track.memory, decision)
        if track.is_new(decision) or track.is_due(now_ms):
            begun = {name for name, each in decision.targets.items() if each.action in ("up", "down")}
            row = track.write_record(record, "controller-1", 3, begun)
            rows.append(row)
            _act(row, decision, counts)
        track.write_memory(decision, now_ms, 3, at_once=True)
        shadow = decide(seen, shadows, shadow_track.memory)
        if shadow_track.is_new(shadow) or shadow_track.is_due(now_ms):
            record = record_of(seen, shadows, shadow_track.memory, shadow)
            shadow_track.write_record(record, "controller-1", 3, shadows={"scale-chat-large-local@2"})
        shadow_track.write_memory(shadow, now_ms, 3, at_once=True)
        counts.update({name: each.wanted for name, each in decision.targets.items() if each.wanted is not None})
    FleetObservation.objects.update_or_create(
        component="policies",
        defaults={"kind": "policy", "state": "up", "figures": {}, "observed_at": now, "up_at": now},
    )
    return rows


def _act(row: DecisionRecord, decision: Decision, counts: dict[str, int]) -> None:
    for name, target in decision.targets.items():
        if target.action in ("up", "down") and target.wanted is not None:
            Action.objects.create(
                decision=row, cluster="local", pool=name, kind=target.action, before=counts[name], after=target.wanted, step="done",
                generation=3, started_at=row.at, step_at=row.at + timedelta(seconds=2), deadline_at=row.at + timedelta(minutes=5),
                accepted_at=row.at + timedelta(seconds=1), ended_at=row.at + timedelta(seconds=2),
                outcome=f"The cluster accepted {target.wanted} replicas after 0.4 s.",
            )  # fmt: skip
