"""Faults of policies and clusters, as observations of the fleet: pages and incidents are made of them."""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q

from controlplane.fleet.clusters.port import GATEWAY, ClusterSeen
from controlplane.fleet.models import Cluster, LLMModel, Observation, Pool
from controlplane.policy.core.decision import Decision
from controlplane.policy.in_force import Policies
from controlplane.policy.models import Action
from controlplane.policy.write_records import DecisionTrack

FRESH = timedelta(seconds=5)
"""An observation that has not changed is written again after this."""
KEPT = timedelta(hours=1)
"""How long the end of a fault stays visible: its incident resolves meanwhile."""
LASTS = timedelta(minutes=15)
"""How long a failed action is a fault, unless a later one of its pool goes well, or a rail holds the pool: then it is longer."""
FAILS = timedelta(seconds=30)
"""For how long a step of an action is tried again and again before people have to know of it."""
AWAY_MS = 15_000
PREFIX = "policy:"
LEADER = "leading controller"
"""The subject of a fault of the process that holds the lease."""
OF_NO_FLEET = frozenset({"fence", "memory", "unreadable", "gateway", "clash"})
"""Kinds of faults whose subject is no pool, model or cluster."""
OF_POLICIES = frozenset(
    (
        *("metrics", "gpus", "pending", "failing", "rollout", "capacity", "budget", "condition", "canary_waits"),
        *("action", "drain", "unmanaged", "unreadable"),
    )
)
"""Kinds of faults that are judged only while a policy in force is about their subject."""
PAGE = "page"
"""The figure that is 1 where the fault is a page, and 0 where it is a ticket."""
MAX_COMPONENT, MAX_ERROR = 255, 500


@dataclass(frozen=True, slots=True)
class Fault:
    """`kind` names its paragraph in docs/components.md, `subject` is a pool, a model or a cluster."""

    kind: str
    subject: str
    text: str
    severity: str = "page"

    @property
    def component(self) -> str:
        return f"{PREFIX}{self.kind}:{self.subject}"[:MAX_COMPONENT]


def of_tick(
    decision: Decision | None,
    clusters: Mapping[str, ClusterSeen],
    refused: Mapping[str, str | None],
    unreadable: Mapping[str, str],
    tracks: Iterable[DecisionTrack],
    now: datetime,
) -> Iterator[Fault]:
    """All that people have to know of. What a decision says counts before what the others say of the same subject.

    `refused` is by cluster why it does not take the policy snapshot (empty: it does; None: not known), `unreadable` by policy why
    it cannot be followed.
    """
    alarms = decision.alarms if decision is not None else ()
    said = {(alarm.kind, alarm.subject) for alarm in alarms}
    for alarm in alarms:
        yield Fault(alarm.kind, alarm.subject, alarm.text, alarm.severity)
    for name, seen in sorted(clusters.items()):
        if seen.problem and ("cluster", name) not in said and (seen.age_ms is None or seen.age_ms > AWAY_MS):
            yield Fault("cluster", name, f"{name} cannot be read: {seen.problem.removesuffix('.')}")
    for name, why in sorted((name, why) for name, why in refused.items() if why):
        text = f"{name} does not take the policy snapshot: {why} Gateways that mount it there keep the one they have."
        yield Fault("snapshot", name, text, "ticket")
    for reference, why in sorted(unreadable.items()):
        yield Fault("unreadable", reference, f"{reference} cannot be followed: {why}")
    for track in tracks:
        if track.problem:
            yield Fault(
                "memory",
                track.name,
                f"What ticks remembered cannot be read in part, and is begun anew there: {track.problem}",
                "ticket",
            )
    yield from of_actions(now)


def of_leader(generation: int, refused: Mapping[str, str]) -> Iterator[Fault]:
    """`refused` is by place why it takes the leader, which holds the lease, for a former one. A single fault for all."""
    if not refused:
        return
    first = next(iter(refused.values()))
    text = (
        f"It holds the lease with generation {generation}, and a higher one has written to {' and '.join(sorted(refused))}. "
        "Nothing is changed there. Weir's database was set back, or another Weir acts there. Run `manage.py leader`, which shows "
        f"all generations, then `manage.py leader --raise` if no other Weir acts there. First refusal: {first}"
    )
    yield Fault("fence", LEADER, text)


def of_actions(now: datetime) -> Iterator[Fault]:
    """The last action of a pool, where the cluster refused it, fails to take it for long, or its replicas did not get empty in time. None
    of a pool that has left the cluster since, or whose cluster was disabled.
    """
    ended, fails = Q(ended_at__gte=now - LASTS), Q(attempts__gt=0, step_at__lte=now - FAILS, retry_at__gte=now - FRESH)
    waits = Q(kind=Action.Kind.DOWN, step=Action.Step.PLANNED)  # for a rollout
    latest = {each.pool: each for each in Action.objects.filter(ended | fails & ~waits).order_by("pk")}
    if not latest:
        return
    here = set(Pool.objects.filter(name__in=latest, cluster__enabled=True).values_list("name", "cluster__name"))
    enabled = set(Cluster.objects.filter(enabled=True).values_list("name", flat=True))
    latest = {
        pool: action
        for pool, action in latest.items()
        if (pool, action.cluster) in here or (pool.startswith(GATEWAY) and action.cluster in enabled)
    }
    for pool, action in sorted(latest.items()):
        if action.ended_at is None:
            yield Fault(
                "action", pool, f"{pool} is not changed from {action.before} to {action.after} yet: {action.outcome}"
            )
        elif action.step == Action.Step.FAILED:
            yield Fault(
                "action", pool, f"{pool} could not be changed from {action.before} to {action.after}: {action.outcome}"
            )
        elif (
            action.step == Action.Step.ABANDONED
            and action.endpoints_version
            and (action.ended_at or now) >= action.deadline_at
        ):
            yield Fault(
                "drain",
                pool,
                f"{pool} was not changed from {action.before} to {action.after}. {action.outcome}",
                "ticket",
            )


def unseen(
    decision: Decision | None, refused: Mapping[str, str | None] | None = None, gateways: Iterable[str] = ()
) -> frozenset[str]:
    """What a tick cannot say of whether its fault is over: pools of which the counts are not known, so that nothing else of them was
    judged; and the components of clusters and `gateways` that did not answer, and of what a cluster did not do for a pool that is held.
    `refused` as in `of_tick`.
    """
    silent = {Fault("snapshot", name, "").component for name, why in (refused or {}).items() if why is None}
    silent |= {Fault("gateway", url, "").component for url in gateways}
    return _unseen_pools(decision) | silent | frozenset(_untried(decision))


def _untried(decision: Decision | None) -> Iterator[str]:
    """Faults of actions that a rail keeps from being tried again."""
    kept = (
        {target.target: target.seen for target in decision.targets.values() if target.action == "hold"}
        if decision
        else {}
    )
    names = {Fault(kind, pool, "").component: pool for pool in kept for kind in ("action", "drain")}
    for name in Observation.objects.filter(component__in=names, state=Observation.State.DOWN).values_list(
        "component", flat=True
    ):
        last = Action.objects.filter(pool=names[name]).first()
        if last is not None and last.before == kept[names[name]]:
            yield name


def _unseen_pools(decision: Decision | None) -> frozenset[str]:
    if decision is None:
        return frozenset()
    stopped = {alarm.text for alarm in decision.alarms if alarm.kind in ("cluster", "unmanaged")}
    return frozenset(
        pool
        for pool, target in decision.targets.items()
        if any(rail.name == "cluster" and rail.reason in stopped for rail in target.rails)
    )


def named(decision: Decision | None, policies: Policies) -> frozenset[str] | None:
    """What policies in force are about: pools, models, and the policies themselves. None: a text does not say what it is about."""
    if not all(each.subject for each in policies.left):
        return None
    subjects = (*decision.targets, *decision.models) if decision is not None else ()
    return frozenset((*subjects, *policies.references))


def report(
    faults: Iterable[Fault], now: datetime, unseen: Container[str] = (), named: Container[str] | None = None
) -> None:
    """Bring the observations up to date, within the caller's fence. A fault that is over is seen up for as long as KEPT. One of
    what is `unseen` is left as it is: whether it is over is not known. One of what has left the fleet, or of what no policy is about
    (`named`), is not over, and goes.
    """
    current = {fault.component: fault for fault in faults}
    rows = {row.component: row for row in Observation.objects.filter(component__startswith=PREFIX)}
    changed = []
    for name, row in rows.items():  # of which some may be of a clock that was ahead
        ended_s = row.figures.get("ended_s")
        if name not in current and ended_s is not None and now.timestamp() - ended_s > KEPT.total_seconds():
            row.delete()
        elif name not in current and ended_s is None and (name in unseen or name.split(":", 2)[-1] in unseen):
            continue
        elif name not in current and ended_s is None and (_has_left(name) or _is_of_no_policy(name, named)):
            row.delete()
        elif name not in current and (ended_s is None or abs(now - row.observed_at) >= FRESH):
            changed.append(_over(row, now))
    for fault in current.values():
        before = rows.get(fault.component)
        if before is None or abs(now - before.observed_at) >= FRESH or not _lasts(before, fault):
            changed.append(_down(fault, before, now))
    if changed:
        Observation.objects.bulk_create(
            changed,
            update_conflicts=True,
            unique_fields=["component"],
            update_fields=["kind", "state", "figures", "observed_at", "up_at", "down_since", "error"],
        )


def _has_left(component: str) -> bool:
    """Whether a fault is about a pool, model or cluster that is no longer in the fleet, or was disabled."""
    _, kind, subject = component.split(":", 2)
    if kind in OF_NO_FLEET or subject.startswith(GATEWAY):
        return False
    here = (
        Pool.objects.filter(enabled=True).exclude(cluster__enabled=False),
        LLMModel.objects,
        Cluster.objects.filter(enabled=True),
    )
    return not any(rows.filter(name=subject).exists() for rows in here)


def _is_of_no_policy(component: str, named: Container[str] | None) -> bool:
    """Whether nobody judges the fault any more, because its policy was retired or replaced."""
    _, kind, subject = component.split(":", 2)
    return named is not None and kind in OF_POLICIES and subject not in named


def _lasts(row: Observation, fault: Fault) -> bool:
    return row.state == Observation.State.DOWN and row.figures.get(PAGE) == _page(fault)


def _page(fault: Fault) -> float:
    return float(fault.severity == "page")


def _down(fault: Fault, before: Observation | None, now: datetime) -> Observation:
    """A fault that begins was up until now: it pages after as long as anything else that goes down."""
    lasts = before is not None and before.state == Observation.State.DOWN
    return Observation(
        component=fault.component,
        kind=Observation.Kind.CLUSTER if fault.kind == "cluster" else Observation.Kind.POLICY,
        state=Observation.State.DOWN,
        figures={PAGE: _page(fault)},
        error=fault.text[:MAX_ERROR],
        observed_at=now,
        up_at=before.up_at if before is not None and lasts else now,
        down_since=before.down_since if before is not None and lasts else now,
    )


def _over(row: Observation, now: datetime) -> Observation:
    return Observation(
        component=row.component,
        kind=row.kind,
        state=Observation.State.UP,
        figures={PAGE: row.figures.get(PAGE, 1.0), "ended_s": row.figures.get("ended_s", now.timestamp())},
        observed_at=now,
        up_at=now,
    )
