"""Reads the metrics of the store that scaling policies name, and how much of their pools' GPUs is in use."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from controlplane.core.periodic import PeriodicThread
from controlplane.policy.core.observation import Observation
from controlplane.policy.core.spec import GPU_USE, InForce, Scaling, ScalingSpec, StoredMetric
from controlplane.policy.observe.core.levels import Level, Sample, gpu_use, last_moved_ns, of_labels, of_pool
from controlplane.serving_stack import pools_served
from controlplane.telemetry.core.metric_types import Matcher
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.explain.figures import Serving
from controlplane.telemetry.explain.observe import GPU_GAUGES, gpus_of
from controlplane.telemetry.store import Store, StoreError, StoreUnavailableError

EVERY_S = 5.0
LOOKED_BACK_NS = 300 * 10**9
"""A series that was silent for longer is over."""
NS_PER_MS = 1_000_000
GPU_ENERGY = ("nv_energy_consumption", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION")
"""Counters that grow as long as a GPU has power, with the labels of its use."""
Key = tuple[str, str]
"""What is scaled, and the key of a signal."""


class MetricsReader(PeriodicThread):
    """`levels()` are the newest, by what is scaled and by signal."""

    def __init__(self, store: Store) -> None:
        super().__init__("metrics of policies", self._read, EVERY_S, (StoreError, StoreUnavailableError))
        self._store = store
        self._query: tuple[int, tuple[ScalingSpec, ...]] = (0, ())
        self._levels: Mapping[Key, Level] = {}

    def follow(self, policies: Sequence[InForce], observation: Observation | None) -> None:
        if observation is not None:
            specs = (each.policy.spec for each in policies if isinstance(each.policy, Scaling))
            self._query = (observation.now_ms, tuple(spec for spec in specs if spec.reactive.stored))

    def levels(self) -> Mapping[Key, Level]:
        return self._levels

    def _read(self) -> None:
        """Where it fails, what was read before stays, and gets older."""
        now_ms, specs = self._query
        self._levels = read(self._store, specs, now_ms) if specs else {}


def read(store: Store, specs: Sequence[ScalingSpec], now_ms: int) -> dict[Key, Level]:
    """The level of each signal of these policies that is known. Raises the store's errors and DatabaseError."""
    window = Window(now_ms * NS_PER_MS - LOOKED_BACK_NS, now_ms * NS_PER_MS)
    served = pools_served()
    levels: dict[Key, Level | None] = {}
    for spec in specs:
        serving = served.get(spec.target, Serving(pool=spec.target))
        if spec.reactive.gpu_use is not None:
            levels[spec.target, GPU_USE] = gpu_use(_of_gpus(store, window, serving), serving)
        for metric in spec.reactive.metrics:
            samples = _newest(store, metric.name, window, metric)
            levels[spec.target, metric.key] = of_labels(samples) if metric.labels else of_pool(samples, serving)
    return {key: level for key, level in levels.items() if level is not None}


def _of_gpus(store: Store, window: Window, serving: Serving) -> list[Sample]:
    """Each as old as the newest reading at which its GPU's use or energy had changed: a page that something keeps stands still."""
    gauges = [sample for name in GPU_GAUGES for sample in _newest(store, name, window)]
    ours = {frozenset(sample.labels.items()) for sample in gpus_of(serving, gauges)}
    moved: dict[frozenset[tuple[str, str]], int] = {}
    for name in (*GPU_GAUGES, *GPU_ENERGY):
        of_ours = {key: info for info in store.metrics.series(name) if (key := frozenset(info.labels.items())) in ours}
        for each in store.metrics.samples_of(name, list(of_ours.values()), window):
            key = frozenset(each.info.labels.items())
            moved[key] = max(moved.get(key, 0), last_moved_ns(each.times, each.values))
    return [
        replace(sample, time_ns=min(sample.time_ns, moved.get(frozenset(sample.labels.items()), sample.time_ns)))
        for sample in gauges
    ]


def _newest(store: Store, name: str, window: Window, metric: StoredMetric | None = None) -> list[Sample]:
    """Of its gauges: how high a counter is says nothing."""
    matchers = [Matcher(label, "=", value) for label, value in metric.labels.items()] if metric else ()
    return [
        Sample(metric=name, labels=each.info.labels, value=each.value, time_ns=each.time_ns, ended=each.ended)
        for each in store.metrics.newest_of(name, window, matchers)
        if each.info.kind != "counter"
    ]
