"""Which actions a decision begins, lets go on, and ends."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from controlplane.fleet.clusters.port import ClusterSeen
from controlplane.fleet.models import Cluster, Pool
from controlplane.policy.act import journal
from controlplane.policy.act.journal import Fence
from controlplane.policy.act.stepper import NOTICED_AFTER_S
from controlplane.policy.core.decision import Decision, TargetDecision
from controlplane.policy.core.memory import Left
from controlplane.policy.core.observation import Observation, PoolFacts
from controlplane.policy.core.spec import InForce, Scaling
from controlplane.policy.models import Action, DecisionRecord
from controlplane.policy.observe.gather import GATEWAY

KINDS = {"up": Action.Kind.UP, "down": Action.Kind.DOWN, "raise_floor": Action.Kind.FLOOR}
DRAIN_DEADLINE_S = 300.0
OVERDUE = "It was held until its deadline, and its replicas get requests again"


class Returned(NamedTuple):
    """An autoscaler's floor that no policy is about any more, and that its owner has lower."""

    cluster: str
    pool: str
    floor: int
    own: int


@dataclass(frozen=True, slots=True)
class Steps:
    """Decisions that begin an action, and floors that are given back; actions that go on and that are given up, by primary key.
    Others wait while a rail holds.
    """

    begin: tuple[TargetDecision, ...] = ()
    returned: tuple[Returned, ...] = ()
    go_on: frozenset[int] = frozenset()
    give_up: Mapping[int, str] = field(default_factory=dict)


def end_lost(now_ms: int, generation: int, fence: Fence) -> list[Action]:
    """End the actions whose cluster or pool has left the fleet since; the others that are not done. Raises LeaseLostError."""
    actions = journal.undone()
    if not actions:
        return []
    enabled = dict(Cluster.objects.values_list("name", "enabled"))
    homes = dict(Pool.objects.filter(name__in={action.pool for action in actions}).values_list("name", "cluster__name"))
    left = []
    for action in actions:
        if why := _lost(action, enabled, homes):
            journal.lose(action, why, now_ms, generation, fence)
        else:
            left.append(action)
    return left


def _lost(action: Action, enabled: Mapping[str, bool], homes: Mapping[str, str | None]) -> str:
    """Why no thread takes the action on any more; empty where its cluster's does. API tiers are no pools of the fleet."""
    if action.cluster not in enabled:
        return f"Cluster {action.cluster} is no longer in the fleet"
    if not enabled[action.cluster]:
        return f"Cluster {action.cluster} was disabled"
    if action.pool.startswith(GATEWAY) or homes.get(action.pool) == action.cluster:
        return ""
    if action.pool not in homes:
        return f"Pool {action.pool} is no longer in the fleet"
    return f"Pool {action.pool} no longer runs in cluster {action.cluster}"


def reconcile(
    decision: Decision,
    observation: Observation,
    undone: Collection[Action],
    left: Collection[Left] = (),
    clusters: Iterable[ClusterSeen] = (),
) -> Steps:
    """Holds the actions that are not done against the decision. What a policy that is `left` has begun waits."""
    still_open = {action.pool: action for action in undone if action.ended_at is None}
    accepted = {action.pool: action for action in undone if action.ended_at is not None}
    begin, go_on, give_up = [], set(), {}
    for name, action in still_open.items():
        target = decision.targets.get(name)
        if target is None and _is_left(name, left):
            if _out_too_long(action, observation):
                give_up[action.pk] = f"{OVERDUE}: its policy cannot be followed."
        elif target is None and action.kind == Action.Kind.FLOOR and action.after < action.before:
            go_on.add(action.pk)
        elif target is None:
            give_up[action.pk] = "No active policy scales the pool any more."
        elif target.seen == action.after:  # the cluster has it: that is still to be written
            go_on.add(action.pk)
        elif action.started_at > journal.at(observation.now_ms):
            # When to try again, and until when, is by that clock too.
            give_up[action.pk] = "The clock was set back since it began: the pool is judged anew."
        elif agrees(action, target):
            go_on.add(action.pk)
        elif target.action != "hold":
            give_up[action.pk] = f"It is no longer wanted: {target.reason}"
        elif _out_too_long(action, observation):
            give_up[action.pk] = f"{OVERDUE}: {target.reason}"
    for name, target in decision.targets.items():
        if target.action not in KINDS or target.wanted is None or target.seen is None or name in still_open:
            continue
        facts = observation.pools.get(name)
        if facts is None or not facts.cluster or _accepted(accepted.get(name), target, _seen_ms(facts, observation)):
            continue
        begin.append(target)
    if begin and (refused := journal.refused(observation.now_ms)):
        begin = [each for each in begin if not any(_is_refused(each, action) for action in refused)]
    busy = decision.targets.keys() | {action.pool for action in undone if action.kind == Action.Kind.FLOOR}
    returned = [each for each in raised(clusters) if each.pool not in busy and not _is_left(each.pool, left)]
    return Steps(tuple(begin), tuple(returned), frozenset(go_on), give_up)


def raised(clusters: Iterable[ClusterSeen]) -> Iterator[Returned]:
    """The floors of autoscalers that Weir has raised, and that nobody else keeps."""
    for cluster in clusters:
        for name, seen in cluster.pools.items():
            scaler = seen.autoscaler
            own = scaler.owner_min_replicas if scaler is not None and not scaler.kept_by else None
            if scaler is not None and own is not None and own < scaler.min_replicas:
                yield Returned(cluster.cluster, name, scaler.min_replicas, own)


def _is_left(pool: str, left: Iterable[Left]) -> bool:
    """Whether a policy of the pool is in force and cannot be followed."""
    return any(each.kind == Scaling.__name__ and each.is_about(pool) for each in left)


def agrees(action: Action, target: TargetDecision) -> bool:
    """Whether the decision still wants at least what the action brings."""
    if target.wanted is None or KINDS.get(target.action) != action.kind:
        return False
    if action.kind == Action.Kind.DOWN:
        return target.wanted <= action.after
    return target.wanted >= action.after


def _is_refused(target: TargetDecision, action: Action) -> bool:
    """Whether the decision wants what a cluster has refused: of removals, at least as much."""
    return (
        action.pool == target.target
        and agrees(action, target)
        and (action.kind == Action.Kind.DOWN or target.wanted == action.after)
    )


def _out_too_long(action: Action, observation: Observation) -> bool:
    """Whether replicas get no requests although the drain's deadline is over. A count that may have been asked for is looked for first."""
    if action.step not in journal.KEEPS_DRAINING or journal.at(observation.now_ms) < action.deadline_at:
        return False
    if action.step != Action.Step.PREFERRED:
        return True
    facts = observation.pools.get(action.pool, PoolFacts(action.pool))
    requested_s = max(action.step_at, action.retry_at or action.step_at).timestamp()
    return facts.cluster_age_ms is not None and _seen_ms(facts, observation) / 1_000 - requested_s >= NOTICED_AFTER_S


def _seen_ms(facts: PoolFacts, observation: Observation) -> int:
    """When its cluster confirmed what the decision rests on."""
    return observation.now_ms - (facts.cluster_age_ms or 0)


def _accepted(last: Action | None, target: TargetDecision, seen_ms: int) -> bool:
    """Whether the cluster has accepted this already, and its watch has not shown it yet."""
    if last is None or last.accepted_at is None or last.after != target.wanted:
        return False
    return seen_ms / 1_000 - last.accepted_at.timestamp() < NOTICED_AFTER_S


def begin(
    steps: Steps, record: DecisionRecord, policies: Sequence[InForce], observation: Observation, generation: int
) -> list[Action]:
    """Write the actions that begin, within the caller's transaction."""
    deadlines = _deadlines(policies)
    floors = [
        journal.plan(
            record,
            Action.Kind.FLOOR,
            each.cluster,
            each.pool,
            each.floor,
            each.own,
            observation.now_ms,
            generation,
            0.0,
        )
        for each in steps.returned
    ]
    return floors + [
        journal.plan(
            record,
            KINDS[target.action],
            observation.pools[target.target].cluster,
            target.target,
            before=_before(target, observation),
            after=target.wanted or 0,
            now_ms=observation.now_ms,
            generation=generation,
            drain_deadline_s=deadlines.get(target.target, DRAIN_DEADLINE_S),
        )
        for target in steps.begin
    ]


def _before(target: TargetDecision, observation: Observation) -> int:
    return target.seen if target.seen is not None else observation.pools[target.target].wanted or 0


def _deadlines(policies: Iterable[InForce]) -> dict[str, float]:
    return {
        policy.policy.spec.target: policy.policy.spec.drain_deadline_s
        for policy in policies
        if isinstance(policy.policy, Scaling)
    }
