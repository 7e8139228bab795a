"""Asks the ledger how many of a pool's requests miss an objective, and in which stage these lose their time: more replicas shorten some
stages only.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from controlplane.core.periodic import PeriodicThread
from controlplane.policy.core.observation import Observation
from controlplane.policy.core.spec import InForce, Scaling
from controlplane.policy.observe.core.lost_time import stage_of
from controlplane.slo.core.count_plan import cut
from controlplane.slo.models import StoredObjective
from controlplane.telemetry.core.query_types import Filters, Window
from controlplane.telemetry.store import Store, StoreError, StoreUnavailableError

EVERY_S = 5.0
LOOKED_BACK_NS = 300 * 10**9
NS_PER_MS = 1_000_000
Key = tuple[str, str]
"""A pool, and an objective's slug."""


class Lost(NamedTuple):
    """At `at_ms`: the stage in which bad requests lose their time, empty where that is not known, and their share; None: no request."""

    stage: str
    bad_share: float | None
    at_ms: int


class StageReader(PeriodicThread):
    """`stages()` are the newest, by pool and objective; none of those that do not burn, unless a policy asks for their bad requests."""

    def __init__(self, store: Store) -> None:
        super().__init__("stages", self._read, EVERY_S, (StoreError, StoreUnavailableError))
        self._store = store
        self._query: tuple[int, tuple[Key, ...]] = (0, ())
        self._stages: Mapping[Key, Lost] = {}

    def follow(self, policies: Sequence[InForce], observation: Observation | None) -> None:
        """Which objectives are asked for, by what the last tick saw."""
        if observation is not None:
            self._query = (observation.now_ms, tuple(wanted_of(policies, observation)))

    def stages(self) -> Mapping[Key, Lost]:
        return self._stages

    def _read(self) -> None:
        now_ms, keys = self._query
        try:
            self._stages = {key: lost_in(self._store, *key, now_ms) for key in keys}
        except (StoreError, StoreUnavailableError):
            self._stages = {}
            raise


def wanted_of(policies: Sequence[InForce], observation: Observation) -> set[Key]:
    """Those that burn faster than a policy accepts, and those whose bad requests a policy limits."""
    keys = set()
    for policy in policies:
        if isinstance(policy.policy, Scaling):
            spec = policy.policy.spec
            burn = observation.pools[spec.target].burns.get(spec.objective or "")
            most = spec.reactive.burn_rate
            burns = most is not None and burn is not None and burn.burn_rate is not None and burn.burn_rate > most
            if burns or spec.reactive.bad_share is not None:
                keys.add((spec.target, spec.objective or ""))
    return keys


def lost_in(store: Store, pool: str, slug: str, now_ms: int) -> Lost:
    """Of the pool's requests of the last five minutes. Raises the store's errors."""
    row = StoredObjective.objects.filter(slug=slug).first()
    judged = cut(row.to_objective().indicator) if row is not None else None
    if row is None or judged is None:
        return Lost("", None, now_ms)
    scope = {name: (value,) for name, value in row.to_objective().scope.items()}
    window = Window(now_ms * NS_PER_MS - LOOKED_BACK_NS, now_ms * NS_PER_MS)
    total, _ = store.burned.splits(window, cast(Filters, {**scope, "pool": (pool,)}), judged, ("replica",))
    requests = total.chosen.requests + total.rest.requests
    return Lost(stage_of(total), total.chosen.requests / requests if requests else None, now_ms)
