"""The policy engine against a real API server with 50 hollow GPU nodes, while something goes wrong: `make bench ONLY=cluster`.

Each fault is there while the engine has to change a count. What counts is how long it takes, from the end of the fault, until a pool has
a count that was decided since, with all replicas ready; whether Weir wrote a count twice; and whether any count was not decided.
Etcd, the programs of the control plane and 4 GB of memory are needed.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.figures import Figure, say

if TYPE_CHECKING:
    from tests.support.cluster.control_plane import ControlPlane
    from tests.support.cluster.proxy import Proxy, Request
    from tests.support.cluster.rehearsed import Counts, RealWorld

NODES, GPUS, POOLS = 50, 4, 8
LOW, HIGH, LOW_RPS, HIGH_RPS = 2, 20, 12.0, 155.0
AWAY_S = 6.0


@dataclass
class Seen:
    """What the episodes have shown."""

    recovered_s: dict[str, float] = field(default_factory=dict)
    double_writes: int = 0
    wrong_counts: int = 0
    stale_writes: int = 0
    stale_refused: int = 0
    records: list[int] = field(default_factory=list)
    killed_points: int = 0
    killed_wrong: int = 0


def run() -> Iterator[Figure]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-bench-")))
        in_django(folder)
        from tests.support.cluster.binaries import binaries
        from tests.support.cluster.control_plane import ControlPlane

        plane = ControlPlane(folder, binaries(), nodes=NODES, gpus=GPUS)
        stack.callback(plane.stop)
        began = time.monotonic()
        plane.start()
        say(f"{NODES} nodes are ready after {time.monotonic() - began:.0f} s")
        with ExitStack() as rehearsed:
            seen = _episodes(plane, folder, rehearsed)
        yield from _figures(seen)
        from tests.bench.cluster import processes

        took_s, wrong = processes.killed(folder, plane)
        yield Figure("cluster.recovered_process_killed_s", max(took_s), "s", f"the worst of {len(took_s)} SIGKILLs")
        yield Figure("cluster.process_killed_wrong", len(wrong), "of them", f"{len(took_s)} SIGKILLs of a leader")


def _figures(seen: Seen) -> Iterator[Figure]:
    for fault, took_s in seen.recovered_s.items():
        yield Figure(
            f"cluster.recovered_{fault}_s", took_s, "s", f"{NODES} hollow nodes, between {LOW} and {HIGH} replicas"
        )
    worst = max(seen.recovered_s, key=lambda fault: seen.recovered_s[fault])
    yield Figure("cluster.recovered_worst_s", seen.recovered_s[worst], "s", worst)
    yield Figure("cluster.double_writes", seen.double_writes, "writes", f"of {len(seen.recovered_s)} episodes")
    yield Figure("cluster.wrong_counts", seen.wrong_counts, "counts", "as another client's watch saw them")
    yield Figure(
        "cluster.stale_writes_accepted", seen.stale_writes - seen.stale_refused, "writes", f"of {seen.stale_writes}"
    )
    yield Figure("cluster.outcomes_per_change", max(seen.records), "outcomes", "the most; 1 is right")
    yield Figure(
        "cluster.killed_after_a_write_wrong", seen.killed_wrong, "of them", f"killed after {seen.killed_points} writes"
    )


def in_django(folder: Path) -> None:
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "controlplane.settings",
        "WEIR_HOME": str(folder / "home"),
        "WEIR_LOG_LEVEL": "error",
    }
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)


def _episodes(plane: "ControlPlane", folder: Path, stack: ExitStack) -> Seen:
    from tests.bench.cluster import beside, killed
    from tests.support.cluster.namespace import Namespace
    from tests.support.cluster.objects import deployment
    from tests.support.cluster.rehearsed import QUICK, Counts, rehearsal
    from tests.support.policy.world import POOL, fleet, revision, scaling

    space = Namespace(plane.kubeconfig, plane, "weir")
    space.core.create_namespace({"metadata": {"name": "weir"}})  # type: ignore[arg-type]
    others = [f"other-{index}" for index in range(POOLS - 1)]
    pools = [POOL, *others]
    fleet(dict.fromkeys(pools, "chat"))
    space.create(*(deployment(pool, LOW, gpus=1) for pool in pools))
    for pool in pools:
        revision(scaling(**{**QUICK, "pool": pool}), name=pool)
    counts = Counts(space)
    stack.callback(counts.close)
    world, proxy = stack.enter_context(rehearsal(space, folder, *pools))
    world.rps = dict.fromkeys(pools, LOW_RPS)
    say(f"{POOLS} pools settle")
    world.until(lambda: all(world.settled(pool, LOW) for pool in pools))
    seen = Seen()
    for index, (name, fault) in enumerate(_faults(plane).items()):
        rps, target = (LOW_RPS, LOW) if index % 2 else (HIGH_RPS, HIGH)
        _episode(seen, name, fault, world, proxy, counts, rps)
        world.until(lambda target=target: _is_near(world, counts, target), within_s=180)
    _by_hand(seen, world, space)
    beside.autoscaler_beside(seen, world, space, proxy, counts)
    seen.killed_points, seen.killed_wrong = killed.between_all_steps(world, proxy, counts)
    return seen


def _is_near(world: "RealWorld", counts: "Counts", target: int) -> bool:
    """The last steps down take minutes, as the law wants it: the next fault does not wait for them."""
    from tests.support.policy.world import POOL

    count = counts.of(POOL)[-1]
    return world.settled(POOL, count) and (count >= HIGH - 4 if target == HIGH else count <= HIGH // 3)


Fault = Callable[["RealWorld", "Proxy", Callable[[], None]], None]
"""Begins the change, and returns when the fault is over."""


def _episode(
    seen: Seen, name: str, fault: Fault, world: "RealWorld", proxy: "Proxy", counts: "Counts", rps: float
) -> None:
    """The traffic changes during the fault; the episode ends once a count that was decided after the fault is ready."""
    from controlplane.policy.models import Action
    from tests.support.cluster.rehearsed import scale_writes
    from tests.support.policy.world import POOL

    counts.clear()
    writes, last = scale_writes(proxy), Action.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    before = counts.of(POOL)[-1]
    fault(world, proxy, lambda: world.rps.__setitem__(POOL, rps))
    took_s = world.until(
        lambda: (
            (counts.of(POOL)[-1] - before) * (1 if rps == HIGH_RPS else -1) > 0
            and world.settled(POOL, counts.of(POOL)[-1])
        ),
        within_s=90,
    )
    actions = Action.objects.filter(pk__gt=last, pool=POOL).order_by("pk")
    decided = list(actions.filter(step="done").values_list("after", flat=True))
    path = counts.of(POOL)
    seen.recovered_s[name] = took_s
    seen.wrong_counts += path[1:] != decided
    seen.double_writes += max(0, scale_writes(proxy) - writes - len(decided))
    seen.records.append(max(decided.count(after) for after in decided))
    if name.startswith("leader_killed"):
        seen.stale_writes += 1
        seen.stale_refused += _is_refused(world, POOL)
    say(
        f"{name}: {path}, ready {took_s:.1f} s after the fault, {scale_writes(proxy) - writes} writes, {decided} decided"
    )


def _is_refused(world: "RealWorld", pool: str) -> bool:
    """Whether the former leader's write is refused, which it prepared with what it sees now."""
    from controlplane.fleet.clusters.errors import StaleLeaderError

    token = world.real.seen().pools[pool].token
    try:
        world.real.scale(pool, 1, token=token, generation=world.generation - 1)
    except StaleLeaderError:
        return True
    return False


def _faults(plane: "ControlPlane") -> dict[str, Fault]:
    from tests.support.cluster.proxy import DROP, HANG, LOSE_ANSWER, everything, watches, writes

    return {
        "none": lambda world, proxy, change: change(),
        "conflict_409": partial(_hits, _writes_a_count, 409, 3),
        "throttled_429": partial(_for, writes, 429, Retry_After="2"),
        "failing_500": partial(_for, everything, 500),
        "hanging": partial(_for, everything, HANG),
        "watch_dropped": partial(_for, watches, DROP, cut=True),
        "answer_lost": partial(_hits, _writes_a_count, LOSE_ANSWER, 1),
        "server_killed": partial(_server_killed, plane),
        "leader_killed_before_scale": partial(_leader_killed, "before scale"),
        "leader_killed_after_scale": partial(_leader_killed, "after scale"),
    }


def _writes_a_count(request: "Request") -> bool:
    return request.method == "PATCH" and request.path.endswith("/scale")


def _hits(
    which: object, what: object, times: int, world: "RealWorld", proxy: "Proxy", change: Callable[[], None]
) -> None:
    """Until so many requests have met it."""
    with proxy.fault(which, what, times) as fault:  # type: ignore[arg-type]
        change()
        world.until(lambda: fault.hits == times)


def _for(
    which: object,
    what: object,
    world: "RealWorld",
    proxy: "Proxy",
    change: Callable[[], None],
    *,
    cut: bool = False,
    **headers: str,
) -> None:
    """For AWAY_S."""
    with proxy.fault(which, what, **headers):  # type: ignore[arg-type]
        if cut or what != 429:
            proxy.cut_watches()
        change()
        _pass(world)


def _pass(world: "RealWorld") -> None:
    until = time.monotonic() + AWAY_S
    while time.monotonic() < until:
        world.tick()


def _server_killed(plane: "ControlPlane", world: "RealWorld", _: "Proxy", change: Callable[[], None]) -> None:
    plane.kill_server()
    change()
    _pass(world)
    plane.restart_server()


def _leader_killed(point: str, world: "RealWorld", _: "Proxy", change: Callable[[], None]) -> None:
    from tests.support.policy.crashing import Killed, Points, killed_at

    points = Points(None)
    points.at = lambda name: _kill(name, point)  # type: ignore[method-assign]
    change()
    with killed_at(points, {"scale": type(world.real)}), suppress(Killed):
        world.until(lambda: False)
    world.next_leader()


def _kill(name: str, point: str) -> None:
    from tests.support.policy.crashing import Killed

    if name == point:
        raise Killed(name)


def _by_hand(seen: Seen, world: "RealWorld", space: object) -> None:
    """A hand sets a count beside Weir: it stays as the hand wants it, and people hear of it."""
    space.set_count("other-0", 5, manager="kubectl-edit")  # type: ignore[attr-defined]
    world.faults.clear()
    took_s = world.until(lambda: "owner" in world.faults)
    for _ in range(10):
        world.tick()
    seen.recovered_s["noticed_hand"] = took_s
    seen.wrong_counts += space.count("other-0") != 5  # type: ignore[attr-defined]
