"""How long a change of the endpoints takes until gateways obey it: from before it is written to the database, through the real `web`, to
the swap in the readers of 200 gateways. They share one process here, as if one machine ran them all.
"""

import asyncio
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from deploy.local.ports import LOOPBACK, free_port
from deploy.local.process import Command, Managed, http_ok
from inference.contract.snapshot import Checked, Fault
from inference.snapshot.snapshot_source import HttpSource
from inference.snapshot.snapshot_watch import SnapshotWatch
from tests.bench.figures import Figure, say
from tests.bench.processes import BenchError

GATEWAYS, MODELS, REPLICAS, ROUNDS = 200, 20, 4, 25
_STARTS_WITHIN_S, _ARRIVES_WITHIN_S = 60.0, 30.0


class Watchers:
    """Readers of gateways, in a thread of their own. `arrived` has when each obeyed which version of the endpoints."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.arrived: dict[int, list[float]] = {}
        self.all_there = threading.Condition()
        threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True).start()

    def wait(self, version: int) -> list[float]:
        """When each of them obeyed that version. Raises BenchError."""
        with self.all_there:
            if not self.all_there.wait_for(lambda: len(self.arrived.get(version, ())) == GATEWAYS, _ARRIVES_WITHIN_S):
                got = len(self.arrived.get(version, ()))
                raise BenchError(f"endpoints {version} reached {got} of {GATEWAYS} gateways in {_ARRIVES_WITHIN_S:g} s")
            return self.arrived[version]

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(GATEWAYS):
                group.create_task(HttpSource(self._url, "", SnapshotWatch(None, self._swap, link_local=False)).run())

    def _swap(self, checked: Checked) -> tuple[Fault, ...]:
        with self.all_there:
            at = self.arrived.setdefault(checked.snapshot.endpoints_version, [])
            at.append(time.monotonic())
            if len(at) == GATEWAYS:
                self.all_there.notify_all()
        return ()


def measured() -> Iterator[Figure]:
    """Django is set up, and has an empty fleet."""
    from controlplane.fleet.models import LLMModel, Pool, Region, Replica, SnapshotRevision, Tenant, Tier, Variant
    from controlplane.fleet.publish import endpoints_version

    replicas = _fleet()
    port = free_port()
    granian = ("-m", "granian", "--interface", "asginl", "--loop", "uvloop", "--host", LOOPBACK, "--port", str(port))
    command = Command(
        "web", (sys.executable, *granian, "controlplane.asgi:application"), lambda: http_ok(port, "/healthz")
    )
    web = Managed(command, Path(os.environ["WEIR_HOME"]) / "web.log").start()
    try:
        web.wait_ready(_STARTS_WITHIN_S)
        watchers = Watchers(f"http://{LOOPBACK}:{port}/internal/snapshot")
        watchers.wait(endpoints_version())
        revisions, took_s = SnapshotRevision.objects.count(), []
        for number in range(ROUNDS):
            replica = replicas[number % len(replicas)]
            replica.draining = not replica.draining
            began_s = time.monotonic()
            replica.save()
            took_s += [at - began_s for at in watchers.wait(endpoints_version())]
        if SnapshotRevision.objects.count() != revisions:
            raise BenchError("a change of the endpoints has made a revision")
    finally:
        web.stop()
        for rows in (Replica, Pool, Variant, LLMModel, Region, Tenant, Tier):
            rows.objects.all().delete()
    ordered = sorted(took_s)
    say(f"{GATEWAYS} gateways, {ROUNDS} changes: median {median(ordered):.3f} s, worst {ordered[-1]:.3f} s")
    yield Figure("loop.snapshot_to_gateway_p95_s", ordered[int(0.95 * len(ordered))], "s", "at most 1 s")


def _fleet() -> list["Replica"]:  # type: ignore[name-defined]  # noqa: F821
    from django.db import transaction

    from controlplane.fleet.models import LLMModel, Pool, Region, Replica, Tenant, Tier, Variant

    with transaction.atomic():
        region = Region.objects.create(name="watched")
        Tenant.objects.create(name="watched", tier=Tier.objects.create(name="watched"))
        made = []
        for number in range(MODELS):
            variant = Variant.objects.create(
                name=f"watched-{number}", model=LLMModel.objects.create(name=f"watched-{number}")
            )
            pool = Pool.objects.create(
                name=f"watched-{number}", variant=variant, region=region, model_name="m", protocol="openai"
            )
            made += [
                Replica.objects.create(pool=pool, name=f"r{each}", url=f"http://10.0.{number}.{each + 1}:8000/v1")
                for each in range(REPLICAS)
            ]
    return made
