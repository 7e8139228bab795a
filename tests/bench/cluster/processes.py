"""Two real controllers over the API server, of which the leader is killed (SIGKILL) before and after it writes to the cluster. The
other one takes over once the lease has ended. The gateway is a stand-in that obeys what is published and has nothing in flight.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import msgspec

from deploy.local.process import Command, Managed
from inference.contract.gateway_signals import GatewaySignals, Obeyed, PoolSignals
from tests.bench.figures import say
from tests.bench.processes import BenchError
from tests.bench.standins.gateway_signals import served
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.killed import set_by_a_person
from tests.support.cluster.namespace import Namespace
from tests.support.cluster.objects import deployment
from tests.support.cluster.proxy import DROP, LOSE_ANSWER, Proxy, Request
from tests.support.cluster.rehearsed import Counts, controllers_way, scale_writes
from tests.support.policy.world import revision, scaling

POOL, LOW, HIGH = "killed", 2, 4
WRITES = {HIGH: ("deployments/scale",), LOW: ("pods", "deployments/scale")}
"""What an action writes, by the count that it goes to: PATCH requests for the resource."""
WITHIN_S = 90.0


def killed(folder: Path, plane: ControlPlane) -> tuple[list[float], list[str]]:
    """How long each change took from the kill to its end, s; and what is wrong, if anything. In a namespace of its own, because a
    former leader of the other one had a higher generation.
    """
    with ExitStack() as stack:
        space = Namespace(plane.kubeconfig, plane, "weir-processes")
        space.core.create_namespace({"metadata": {"name": space.name}})  # type: ignore[arg-type]
        proxy = stack.enter_context(controllers_way(space))
        counts = Counts(space)
        stack.callback(counts.close)
        _enter(folder, space, proxy)
        env = _settings(folder, stack.enter_context(served(partial(_signals, int(time.time() * 1e3)))))
        leader = stack.enter_context(_Leader(folder, env))
        leader.start()
        _until(lambda: _settled(space, LOW), "the pool is managed", WITHIN_S)
        leader.start()
        took_s, wrong = [], []
        for target, resources in WRITES.items():
            for resource in resources:
                for what in (DROP, LOSE_ANSWER):
                    took, bad = _episode(space, proxy, counts, leader, target, resource, what)
                    took_s.append(took)
                    wrong += bad
                    back = LOW if target == HIGH else HIGH
                    set_by_a_person(POOL, back)
                    _until(lambda back=back: _settled(space, back), f"back at {back}", WITHIN_S)
            set_by_a_person(POOL, target)
            _until(lambda target=target: _settled(space, target), f"at {target}", WITHIN_S)
        return took_s, wrong


class _Leader:
    """The controllers: the one that leads, and the one that waits."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self._folder, self._env = folder, env
        self._running: list[Managed] = []

    def __enter__(self) -> "_Leader":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            process.kill()

    def start(self) -> None:
        command = Command("controller", (sys.executable, "-m", "controlplane.controller"), env=self._env)
        log = self._folder / f"controller-{len(self._running)}.log"
        self._running.append(Managed(command, log).start())

    def kill(self) -> None:
        from controlplane.core.models import Lease

        os.kill(int(Lease.objects.get(name="controller").holder.split(":")[1]), signal.SIGKILL)


def _episode(
    space: Namespace, proxy: Proxy, counts: Counts, leader: _Leader, target: int, resource: str, what: str
) -> tuple[float, list[str]]:
    from controlplane.policy.models import Action, DecisionRecord

    counts.clear()
    before, writes = counts.of(POOL)[-1], scale_writes(proxy)
    last = Action.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    ended = threading.Event()

    def kills(request: Request) -> bool:
        tail = request.path.split("/namespaces/")[-1].split("/")[1:]
        if ended.is_set() or request.method != "PATCH" or "/".join([tail[0], *tail[2:]]) != resource:
            return False
        leader_is(POOL, tail)
        ended.set()
        leader.kill()
        return True

    def leader_is(pool: str, tail: list[str]) -> None:
        if not tail[1].startswith(pool):
            raise BenchError(f"a write to {tail[1]} and not to {pool}")

    with proxy.fault(kills, what, times=1):
        set_by_a_person(POOL, target)
        _until(ended.is_set, f"a write of {resource}", WITHIN_S)
    began = time.monotonic()
    leader.start()
    _until(lambda: _settled(space, target), f"{target} after a kill", WITHIN_S)
    took_s = time.monotonic() - began
    actions = Action.objects.filter(pk__gt=last, pool=POOL)
    ends = {
        "counts": (counts.of(POOL), [before, target]),
        "writes of a count": (scale_writes(proxy) - writes, 1),
        "outcomes": ([(each.step, each.after) for each in actions], [("done", target)]),
        "records": (DecisionRecord.objects.filter(actions__in=actions).distinct().count(), 1),
    }
    name = f"killed {'before' if what == DROP else 'after'} a write of {resource} on the way to {target}"
    wrong = [f"{name}: {key}: {was} and not {due}" for key, (was, due) in ends.items() if was != due]
    say(f"{name}: {took_s:.1f} s; {'; '.join(wrong) or 'one record, one outcome'}")
    return took_s, wrong


def _enter(folder: Path, space: Namespace, proxy: Proxy) -> None:
    """A fleet of this pool alone, in the cluster behind the proxy."""
    from controlplane.fleet.models import Cluster, LLMModel, Pool, PublishedSnapshot, Region, Variant
    from controlplane.policy.models import Action, PolicyRevision

    PolicyRevision.objects.update(state="retired")
    PublishedSnapshot.objects.update(generation=0)  # earlier leaders were no processes, and had no lease
    Action.objects.all().delete()  # those of a cluster that is no more
    Pool.objects.all().delete()
    Cluster.objects.all().delete()
    kubeconfigs = folder / "kubeconfigs"
    kubeconfigs.mkdir(exist_ok=True)
    proxy.kubeconfig(kubeconfigs).rename(kubeconfigs / "bench")
    cluster = Cluster.objects.create(name="bench", kind="kubernetes", kubeconfig="bench", namespace=space.name)
    variant = Variant.objects.create(name=POOL, model=LLMModel.objects.create(name=POOL))
    region, _ = Region.objects.get_or_create(name="bench")
    Pool.objects.create(name=POOL, variant=variant, region=region, cluster=cluster, protocol="openai", model_name=POOL)
    space.create(deployment(POOL, LOW))
    revision(scaling(pool=POOL, max=HIGH), name=POOL)
    set_by_a_person(POOL, LOW)


def _settled(space: Namespace, count: int) -> bool:
    from controlplane.fleet.models import Replica
    from controlplane.policy.act import journal

    rows = Replica.objects.filter(pool__name=POOL, draining=False).count()
    return space.count(POOL) == count == len(space.pods(POOL)) == rows and not journal.any_undone()


def _settings(folder: Path, gateway: str) -> dict[str, str]:
    return {
        "WEIR_KUBECONFIGS_DIR": str(folder / "kubeconfigs"),
        "WEIR_GATEWAY_URL": gateway,
        "WEIR_CONTROLLER_PORT": "0",
        "WEIR_STORE_DSN": "clickhouse://bench:none@127.0.0.1:1/weir",
    }


def _signals(began_ms: int) -> bytes:
    from django.db import connections

    from controlplane.fleet.models import PublishedSnapshot

    row = PublishedSnapshot.objects.first()
    connections.close_all()
    now_ms = int(time.time() * 1e3)
    total = (now_ms - began_ms) // 100
    return msgspec.json.encode(
        GatewaySignals(
            at_ms=now_ms,
            started_ms=began_ms,
            gateway="bench",
            region="bench",
            requests=total,
            cpu_s=0.0,
            snapshot=Obeyed(1, row.endpoints_version, row.overlay_version) if row else Obeyed(),
            pools={POOL: PoolSignals(arrived=total, answered=total)},
        )
    )


def _until(holds: Callable[[], bool], what: str, within_s: float) -> None:
    until = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > until:
            raise BenchError(f"not within {within_s:g} s: {what}")
        time.sleep(0.1)
