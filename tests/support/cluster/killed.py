"""The engine ends after each thing that it has done outside of itself, on a real API server, and another one takes over."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from unittest import mock

from django.utils import timezone

from controlplane.fleet.clusters.kubernetes.client import Api
from controlplane.policy.act import journal
from controlplane.policy.act.actor import Actor
from controlplane.policy.models import Action, DecisionRecord, Override
from tests.support.cluster.proxy import Proxy
from tests.support.cluster.rehearsed import Counts, RealWorld, scale_writes
from tests.support.policy.crashing import Killed, Points

OF_ACTIONS = ("PUT leases", "PATCH deployments", "PATCH pods", "PATCH deployments/scale")


@contextmanager
def killed_after(kill_at: int, *, journal_too: bool) -> Iterator[Points]:
    """Kill after the `kill_at`th write that the API server has accepted, or transaction of the journal where `journal_too`. What
    is before the next write is the same moment.
    """
    points = Points(kill_at)

    def passing(name: Callable[..., str], original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            point = name(*args, **kwargs)
            if point in OF_ACTIONS or (point and journal_too):
                points.at(point)
            return result

        return wrapped

    def decided(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(actor: Actor, turn: Any) -> Any:
            if journal_too and journal.any_undone():
                points.at("the decision is written")
            return original(actor, turn)

        return wrapped

    with (
        mock.patch.object(Api, "request", passing(_write, Api.request)),
        mock.patch.object(journal, "move", passing(_step, journal.move)),
        mock.patch.object(Actor, "act", decided(Actor.act)),
    ):
        yield points


def _write(_: Api, method: str, path: str, *__: object, **___: object) -> str:
    parts = path.split("/namespaces/")[-1].split("/")[1:]
    return "" if method == "GET" else f"{method} {'/'.join([parts[0], *parts[2:]])}"


def _step(_: Action, step: str, *__: object, **___: object) -> str:
    return f"step {step}"


def set_by_a_person(pool: str, replicas: int) -> None:
    """A person sets the count: then the next tick begins to change it."""
    now = timezone.now()
    Override.objects.filter(pool=pool).delete()
    Override.objects.create(
        pool=pool, replicas=replicas, starts_at=now, ends_at=now + timedelta(hours=1), reason="test"
    )


def outcome_of(
    world: RealWorld, proxy: Proxy, counts: Counts, pool: str, target: int, kill_at: int, *, journal_too: bool
) -> tuple[str, list[str]]:
    """Have a new leader bring the pool to `target` through one kill. The point at which it was, empty where there are fewer; and
    what is wrong.
    """
    counts.clear()
    writes, before = scale_writes(proxy), counts.of(pool)[-1]
    last = Action.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    point = ""
    set_by_a_person(pool, target)
    world.next_leader()
    with killed_after(kill_at, journal_too=journal_too) as points:
        try:
            world.until(lambda: counts.of(pool)[-1] == target and world.settled(pool, target), within_s=60)
        except Killed:
            point = points.names[-1]
    if point:
        world.next_leader()
        world.until(lambda: counts.of(pool)[-1] == target and world.settled(pool, target), within_s=60)
    actions = Action.objects.filter(pk__gt=last, pool=pool)
    ended = {
        "counts": (counts.of(pool), [before, target]),
        "writes of a count": (scale_writes(proxy) - writes, 1),
        "outcomes": ([(each.step, each.after) for each in actions], [("done", target)]),
        "records": (DecisionRecord.objects.filter(actions__in=actions).distinct().count(), 1),
        "texts of an outcome": (actions.exclude(outcome="").count(), 1),
    }
    wrong = [f"{point}: {name}: {was} and not {due}" for name, (was, due) in ended.items() if was != due]
    return point, wrong
