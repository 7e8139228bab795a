"""Counts many objectives with one query to the ledger. If it fails, halves are queried until the failing objective is alone."""

import time
from collections.abc import Iterator, Sequence
from functools import partial

from controlplane.slo.bucket_edges import Grown, grown
from controlplane.slo.core.count_plan import GRID_S, Block, Counting, CountPlan, Split
from controlplane.slo.core.maintenance_windows import MaintenanceWindow
from controlplane.slo.core.period import SECOND_NS, Span
from controlplane.slo.core.sli import Histogram
from controlplane.slo.evaluate.known_objective import KnownObjective
from controlplane.slo.isolation import isolated
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.store import Store

MAX_QUERIES = 40
MAX_S = 4.0
"""A search for failing objectives ends after so many queries, or seconds. Those not separated by then fail until the next tick."""


class LedgerQuery:
    """One per process. Not thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._plans: dict[tuple[tuple[str, ...], tuple[MaintenanceWindow, ...]], CountPlan] = {}
        self._turn = 0
        self.grown: dict[str, Grown] = {}
        """The last counts of each histogram, with why they may not be all. By slug."""

    def counts(
        self, chosen: Sequence[KnownObjective], maintenance: tuple[MaintenanceWindow, ...], from_s: int, to_s: int
    ) -> Iterator[tuple[KnownObjective, dict[Split, Block] | Exception]]:
        """Bad and total requests of each between two times, s since the epoch; or the error of an objective.

        Raises StoreUnavailableError.
        """
        requests = [known for known in chosen if not isinstance(known.objective.indicator, Histogram)]
        search = _Search()
        self._turn += 1
        failed = [known for known in requests if known.error]
        turn = self._turn % max(len(failed), 1)  # each is queried early at some time
        for group in ([known for known in requests if not known.error], [*failed[turn:], *failed[:turn]]):
            yield from self._group(group, maintenance, from_s, to_s, search)
        for known in chosen:
            if isinstance(indicator := known.objective.indicator, Histogram):
                read = partial(self._histogram, known, indicator, maintenance, from_s, to_s)
                yield known, isolated(read)

    def _group(
        self,
        group: Sequence[KnownObjective],
        maintenance: tuple[MaintenanceWindow, ...],
        from_s: int,
        to_s: int,
        search: "_Search",
    ) -> Iterator[tuple[KnownObjective, dict[Split, Block] | Exception]]:
        """One query for all; where it fails, one for each half, until the failing objective is alone."""
        if not group:
            return
        answer = isolated(lambda: self._read(group, maintenance, from_s, to_s))
        if isinstance(answer, Exception):  # the halves show whose it is
            search.queries += 1
            if len(group) == 1 or search.is_over:
                yield from ((known, answer) for known in group)
                return
            half = len(group) // 2
            yield from self._group(group[:half], maintenance, from_s, to_s, search)
            yield from self._group(group[half:], maintenance, from_s, to_s, search)
            return
        plan, counting = answer
        for known, task in zip(group, plan.tasks, strict=True):
            yield known, isolated(partial(counting.requests, task))

    def _read(
        self, group: Sequence[KnownObjective], maintenance: tuple[MaintenanceWindow, ...], from_s: int, to_s: int
    ) -> tuple[CountPlan, Counting]:
        plan = self._plan(group, maintenance)
        window = Window(from_s * SECOND_NS, to_s * SECOND_NS)
        return plan, plan.counting(
            self._store.objectives.classes(window, plan.cuts, plan.dimensions, GRID_S), from_s, to_s
        )

    def _plan(self, group: Sequence[KnownObjective], maintenance: tuple[MaintenanceWindow, ...]) -> CountPlan:
        key = tuple(known.definition for known in group), maintenance
        plan = self._plans.get(key)
        if plan is None:
            plan = CountPlan([known.objective for known in group], maintenance, key[0])
            self._plans = {**dict(list(self._plans.items())[-3:]), key: plan}
        return plan

    def _histogram(
        self,
        known: KnownObjective,
        indicator: Histogram,
        maintenance: tuple[MaintenanceWindow, ...],
        from_s: int,
        to_s: int,
    ) -> dict[Split, Block]:
        self.grown[known.objective.slug] = grown(self._store, indicator, from_s, to_s)
        block = self.grown[known.objective.slug].block
        for each in maintenance:
            if each.concerns(known.objective.slug) and not each.scope:
                for span in each.occurrences(Span(from_s * SECOND_NS, to_s * SECOND_NS)):
                    low, high = span.from_ns // SECOND_NS - from_s, span.to_ns // SECOND_NS - from_s
                    block[:, max(0, low // GRID_S) : max(0, -(-high // GRID_S))] = 0
        return {(): block}


class _Search:
    def __init__(self) -> None:
        self.queries = 0
        self._until = time.monotonic() + MAX_S

    @property
    def is_over(self) -> bool:
        return self.queries >= MAX_QUERIES or time.monotonic() > self._until
