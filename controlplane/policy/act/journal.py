"""The journal of actions: every change of a step is one transaction that only the leader may write."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any

import structlog
from django.db import transaction
from django.db.models import Q

from controlplane.core.backoff import doubled_s
from controlplane.fleet.models import Replica
from controlplane.fleet.publish import publish_on_commit
from controlplane.observability import tracing
from controlplane.policy.models import Action, DecisionRecord

log = structlog.get_logger(__name__)

Fence = Callable[[], None]
"""Called first in each transaction that only the leader may write. Raises LeaseLostError."""
KEEPS_DRAINING = (Action.Step.DRAINING, Action.Step.DRAINED, Action.Step.PREFERRED, Action.Step.ACCEPTED)
REFUSED_FOR_S = 60.0
"""What a cluster has refused is asked for again after this: a right may have been granted meanwhile."""
MAX_REFUSED_FOR_S, MAX_REFUSALS = 480.0, 3
"""Of a removal that was refused again and again: less than a failed action is a fault, so that it stays one."""
MAX_OUTCOME = 500


def at(now_ms: int) -> datetime:
    return datetime.fromtimestamp(now_ms / 1_000, UTC)


def plan(
    decision: DecisionRecord,
    kind: str,
    cluster: str,
    pool: str,
    before: int,
    after: int,
    now_ms: int,
    generation: int,
    drain_deadline_s: float,
) -> Action:
    """Begin an action, within the caller's transaction."""
    now = at(now_ms)
    return Action.objects.create(
        decision=decision,
        cluster=cluster,
        pool=pool,
        kind=kind,
        before=before,
        after=after,
        generation=generation,
        started_at=now,
        step_at=now,
        deadline_at=now + timedelta(seconds=drain_deadline_s),
        traceparent=tracing.traceparent(),
    )


_UNDONE = Q(ended_at__isnull=True) | Q(step=Action.Step.ACCEPTED)


def undone() -> list[Action]:
    """Those that may still change a count, which have no end yet, and those that the cluster has accepted, and of which it is not known
    what became. Oldest first.
    """
    return list(Action.objects.filter(_UNDONE).order_by("started_at", "pk"))


def any_undone() -> bool:
    """Whether there is one of them."""
    return Action.objects.filter(_UNDONE).exists()


def refused(now_ms: int) -> list[Action]:
    """What a cluster has refused, and is not to be asked for yet."""
    now = at(now_ms)
    longest = timedelta(seconds=MAX_REFUSED_FOR_S)
    rows = Action.objects.filter(step=Action.Step.FAILED, ended_at__range=(now - longest, now))
    return [each for each in rows if now - (each.ended_at or now) < timedelta(seconds=refused_for_s(each))]


def refused_for_s(action: Action) -> float:
    """How long what the cluster refused is not asked for again: a removal the longer the more often it was refused in a row, because its
    replicas get no requests while it is tried.
    """
    if action.kind != Action.Kind.DOWN:
        return REFUSED_FOR_S
    before = Action.objects.filter(pool=action.pool, kind=action.kind, pk__lt=action.pk).order_by("-pk")
    steps = before.values_list("step", flat=True)[:MAX_REFUSALS]
    in_a_row = 1 + len(list(takewhile(lambda step: step == Action.Step.FAILED, steps)))
    return doubled_s(REFUSED_FOR_S, in_a_row, MAX_REFUSED_FOR_S)


def move(action: Action, step: str, now_ms: int, generation: int, fence: Fence, **changes: Any) -> bool:
    """Write that a step is done. False where the action was ended meanwhile. Raises LeaseLostError.

    The replicas that go get no new requests from DRAINING on, and get them again where the action is given up.
    """
    with transaction.atomic():
        fence()
        fields = {
            "step": step,
            "step_at": at(now_ms),
            "generation": generation,
            "retry_at": None,
            "attempts": 0,
            **changes,
        }
        if not Action.objects.filter(pk=action.pk, step=action.step).update(**fields):
            return False
        for name, value in fields.items():
            setattr(action, name, value)
        drain(action.pool, action.replicas, step in KEEPS_DRAINING)
    log.info(
        "action.step_done", pool=action.pool, kind=action.kind, step=step, before=action.before, after=action.after
    )
    return True


def postpone(action: Action, now_ms: int, after_s: float, why: str, fence: Fence) -> None:
    """Try the step again later."""
    with transaction.atomic():
        fence()
        action.attempts += 1
        action.retry_at = at(now_ms) + timedelta(seconds=after_s)
        action.outcome = why[:MAX_OUTCOME]
        Action.objects.filter(pk=action.pk, step=action.step).update(
            attempts=action.attempts, retry_at=action.retry_at, outcome=action.outcome
        )


def end(action: Action, step: str, outcome: str, now_ms: int, generation: int, fence: Fence) -> bool:
    """The action is over."""
    outcome = outcome[:MAX_OUTCOME]
    ended = action.ended_at or at(now_ms)
    return move(action, step, now_ms, generation, fence, ended_at=ended, outcome=outcome)


def lose(action: Action, why: str, now_ms: int, generation: int, fence: Fence) -> None:
    """End an action that nobody can take on any more. Replicas whose removal the cluster has accepted get no requests again: they may be
    gone, and discovery brings back those that are not.
    """
    names = _still_here(action)
    if action.step != Action.Step.ACCEPTED:
        text = f"{why}: it was given up before the cluster was known to have accepted it.{_go_on(names)}"
        end(action, Action.Step.ABANDONED, text, now_ms, generation, fence)
        return
    fields = {
        "step": Action.Step.DONE,
        "step_at": at(now_ms),
        "generation": generation,
        "outcome": f"{why}: the cluster had accepted it, and what became of it there is not known.{_stay_out(names)}"[
            :MAX_OUTCOME
        ],
    }
    with transaction.atomic():
        fence()
        Action.objects.filter(pk=action.pk, step=action.step).update(**fields)
    log.info("action.lost", pool=action.pool, kind=action.kind, cluster=action.cluster, reason=why)


def _still_here(action: Action) -> list[str]:
    """Of the replicas that go, those that are in the fleet. All are gone from it where their pool is."""
    rows = Replica.objects.filter(pool__name=action.pool, name__in=action.replicas)
    return list(rows.order_by("name").values_list("name", flat=True))


def _go_on(replicas: list[str]) -> str:
    return f" {_listed(replicas)} {'get' if replicas[1:] else 'gets'} requests again." if replicas else ""


def _stay_out(replicas: list[str]) -> str:
    if not replicas:
        return ""
    they, are = ("they", "are") if replicas[1:] else ("it", "is")
    return f" {_listed(replicas)} get{'' if replicas[1:] else 's'} no requests until a cluster shows that {they} {are} still there."


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def drain(pool: str, replicas: Iterable[str], draining: bool) -> None:
    """Mark discovered replicas within the caller's transaction; the endpoints are published after it."""
    names = list(replicas)
    if not names:
        return
    rows = Replica.objects.filter(pool__name=pool, name__in=names, managed_by=Replica.ManagedBy.CLUSTER)
    if rows.exclude(draining=draining).update(draining=draining):
        publish_on_commit("default")
