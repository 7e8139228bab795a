"""Ticks every second in a thread of the controller, while this process leads."""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial

import structlog
from django.db import DatabaseError, transaction
from django.utils import timezone
from prometheus_client import Counter, Gauge, Histogram

from controlplane.config import Config
from controlplane.core import lease
from controlplane.core.periodic import PeriodicThread
from controlplane.fleet.clusters.port import Cluster
from controlplane.fleet.clusters.registry import Clusters
from controlplane.fleet.models import Observation
from controlplane.policy.engine import Engine, Leader, Ticked
from controlplane.policy.observe.canaries import CanaryReader
from controlplane.policy.observe.core.traffic import Traffic
from controlplane.policy.observe.gateways import Gateways
from controlplane.policy.observe.gather import Background
from controlplane.policy.observe.metrics import MetricsReader
from controlplane.policy.observe.planned import PlannedReader
from controlplane.policy.observe.stages import StageReader
from controlplane.telemetry.store import Store

log = structlog.get_logger(__name__)

COMPONENT = "policies"
BEAT_S = 5.0
MAX_ERROR = 500

TOOK = Histogram(
    "weir_policy_tick_seconds",
    "A tick of all policies, from what it sees to what it has written.",
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10),
)
TICKS = Counter("weir_policy_ticks", "Ticks of policies.", ["result"])
REPLICAS = Gauge("weir_policy_replicas", "Replicas of a pool, as the last tick saw or wanted them.", ["pool", "what"])
HELD = Gauge("weir_policy_held", "1 where a rail keeps a pool's count.", ["pool"])
LADDER = Gauge("weir_policy_ladder_step", "The step of the ladder that a tier is on; 0 is none.", ["model", "tier"])
FAULTS = Gauge("weir_policy_faults", "Faults that people have to know of.", ["kind"])


EVERY_S = 1.0
"""How often gateways are read, and then decided."""


class PolicyLoop(PeriodicThread):
    """Until `stopping`: it ends after the tick it is in. `holder` is this process's name in the lease `lease_name`."""

    def __init__(
        self,
        config: Config,
        store: Store,
        clusters: Clusters,
        lease_name: str,
        holder: str,
        lasts: timedelta,
        stopping: threading.Event,
    ) -> None:
        super().__init__("policies", self._round, every_s=0)
        self._stopping = stopping
        self._config, self._holder, self._lease, self._lasts = config, holder, lease_name, lasts
        self._clusters = clusters
        self._urls: tuple[str, ...] = ()
        self._others: tuple[str, ...] = ()
        self._strangers: frozenset[str] = frozenset()
        self._planned = PlannedReader()
        self._gateways = Gateways(
            lambda: self._urls,
            config.metrics_token,
            EVERY_S,
            others=lambda: self._others,
            strangers=lambda: self._strangers,
        )
        self._canaries = CanaryReader(store)
        self._stages = StageReader(store)
        self._metrics = MetricsReader(store)
        self._readers = (self._planned, self._gateways, self._canaries, self._stages, self._metrics)
        self._engine = Engine(self._background, self._refreshed)
        self._beat_s = float("-inf")
        self._at_zero = frozenset[str]()

    def traffic(self) -> Traffic:
        """What gateways have said; nothing before the first round."""
        return self._gateways.traffic()

    def at_zero(self) -> frozenset[str]:
        """Pools that have no replica, as the last decision wants it."""
        return self._at_zero

    def run(self) -> None:
        for reader in self._readers:
            reader.start()
        super().run()
        self._engine.stop()
        for reader in self._readers:
            reader.stop()
        self._clusters.close()

    def _round(self) -> None:
        self._gateways.wait(2 * EVERY_S)  # what it decides about is then as new as can be
        try:
            self._tick()
        except lease.LeaseLostError as lost:
            log.warning("policies.lease_lost", reason=str(lost))
        except Exception as error:
            TICKS.labels("failed").inc()
            note_failure(error)
            raise

    def _tick(self) -> None:
        generation = lease.take(self._lease, self._holder, timezone.now(), self._lasts)
        if not generation:  # it goes on to observe, so that it can take over within a tick
            self._refreshed()
            return
        fence = partial(lease.fence, self._lease, self._holder, generation)
        ticked = self._engine.tick(Leader(self._holder, generation, fence), int(time.time() * 1_000))
        targets = ticked.decision.targets if ticked.decision else {}
        self._at_zero = frozenset(name for name, each in targets.items() if each.wanted == each.seen == 0)
        self._canaries.follow(ticked.policies, ticked.decision)
        self._stages.follow(ticked.policies.all, ticked.observation)
        self._metrics.follow(ticked.policies.all, ticked.observation)
        self._beat(ticked, fence)
        measure(ticked)

    def _background(self) -> Background:
        return Background(
            self._gateways.traffic(),
            self._planned.planned(),
            canaries=self._canaries.counts(),
            stages=self._stages.stages(),
            levels=self._metrics.levels(),
        )

    def _refreshed(self) -> Mapping[str, Cluster]:
        """The clusters of now; their gateways are read from, or on a machine without any the one that is observed."""
        clusters = self._clusters.refresh()
        seen = [cluster.seen() for cluster in clusters.values()]
        urls = [url for each in seen for url in each.gateways]
        self._strangers = frozenset[str]().union(*(each.strangers for each in seen))
        self._urls = tuple(dict.fromkeys(urls)) or (self._config.gateway_url,)
        # One that should have ended is on a node that nobody hears of: it is not waited for.
        now_ms = int(time.time() * 1_000)
        others = [url for each in seen for url, ends in each.other_gateways.items() if ends is None or ends > now_ms]
        self._others = tuple(dict.fromkeys(others))
        return clusters

    def _beat(self, ticked: Ticked, fence: Callable[[], None]) -> None:
        if time.monotonic() - self._beat_s < BEAT_S:
            return
        self._beat_s = time.monotonic()
        decision = ticked.decision
        with transaction.atomic():
            fence()
            Observation.objects.update_or_create(
                component=COMPONENT,
                defaults={
                    "kind": Observation.Kind.POLICY,
                    "state": Observation.State.UP,
                    "figures": {
                        "policies": len(ticked.policies.active),
                        "pools": len(decision.targets) if decision else 0,
                        "faults": len(ticked.faults),
                        "tick_ms": round(ticked.took_s * 1e3, 1),
                    },
                    "observed_at": timezone.now(),
                    "up_at": timezone.now(),
                    "error": "",
                },
            )


def note_failure(error: Exception) -> None:
    """Let the incident say why ticks fail, which is of them all: each sees every policy. What the database says is in the log."""
    if isinstance(error, DatabaseError):
        return
    text = f"the last tick failed: {type(error).__name__}: {error}"[:MAX_ERROR]
    with suppress(DatabaseError):
        Observation.objects.filter(component=COMPONENT).update(error=text)


def measure(ticked: Ticked) -> None:
    TOOK.observe(ticked.took_s)
    TICKS.labels("done").inc()
    for gauge in (REPLICAS, HELD, LADDER, FAULTS):
        gauge.clear()
    for kind in {fault.kind for fault in ticked.faults}:
        FAULTS.labels(kind).set(sum(fault.kind == kind for fault in ticked.faults))
    if ticked.decision is None or ticked.observation is None:
        return
    for name, target in ticked.decision.targets.items():
        facts = ticked.observation.pools[name]
        counts = {"wanted": target.wanted, "set": facts.wanted, "ready": facts.ready, "pending": facts.pending}
        for what, count in counts.items():
            if count is not None:
                REPLICAS.labels(name, what).set(count)
        HELD.labels(name).set(target.action == "hold")
    for model, tiers in ticked.decision.memory.ladders.items():
        for tier, ladder in tiers.items():
            LADDER.labels(model, tier).set(ladder.level)
