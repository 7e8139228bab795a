"""Asks the ledger for many objectives at once, so that one whose question fails keeps no other from its answer."""

import time
from collections.abc import Iterator, Sequence
from functools import partial

from controlplane.slo.core.count_plan import GRID_S, Block, Counting, Plan, Split
from controlplane.slo.core.maintenance_windows import MaintenanceWindow
from controlplane.slo.core.period import SECOND_NS, Span
from controlplane.slo.core.sli import Histogram
from controlplane.slo.evaluate.bucket_edges import grown
from controlplane.slo.evaluate.isolation import alone
from controlplane.slo.evaluate.known_objective import Known
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.store import Store

MOST_QUESTIONS = 40
LONGEST_S = 4.0
"""A search for those that fail ends after so many questions, or so long. What it has not told apart by then is failed, until the next tick
asks it again."""


class Asking:
    """One process's. Not thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._plans: dict[tuple[tuple[str, ...], tuple[MaintenanceWindow, ...]], Plan] = {}
        self._turn = 0

    def ask(
        self, chosen: Sequence[Known], planned: tuple[MaintenanceWindow, ...], from_s: int, to_s: int
    ) -> Iterator[tuple[Known, dict[Split, Block] | Exception]]:
        """Bad and total requests of each between two times, s since the epoch; or why there are none.

        Raises StoreUnavailableError, where the store is away for all.
        """
        requests = [one for one in chosen if not isinstance(one.objective.indicator, Histogram)]
        search = _Search()
        self._turn += 1
        ill = [one for one in requests if one.error]
        turn = self._turn % max(len(ill), 1)  # so that each is asked early at some time
        for group in ([one for one in requests if not one.error], [*ill[turn:], *ill[:turn]]):
            yield from self._group(group, planned, from_s, to_s, search)
        for one in chosen:
            if isinstance(indicator := one.objective.indicator, Histogram):
                ask = partial(self._histogram, one, indicator, planned, from_s, to_s)
                yield one, alone(ask)

    def _group(
        self, group: Sequence[Known], planned: tuple[MaintenanceWindow, ...], from_s: int, to_s: int, search: "_Search"
    ) -> Iterator[tuple[Known, dict[Split, Block] | Exception]]:
        """One question for all; where it fails, one for each half, until what fails is alone."""
        if not group:
            return
        found = alone(lambda: self._asked(group, planned, from_s, to_s))
        if isinstance(found, Exception):  # of the store, or of what a row asks for: the halves tell whose it is
            search.questions += 1
            if len(group) == 1 or search.is_over:
                yield from ((one, found) for one in group)
                return
            half = len(group) // 2
            yield from self._group(group[:half], planned, from_s, to_s, search)
            yield from self._group(group[half:], planned, from_s, to_s, search)
            return
        plan, counting = found
        for one, task in zip(group, plan.tasks, strict=True):
            yield one, alone(partial(counting.requests, task))

    def _asked(
        self, group: Sequence[Known], planned: tuple[MaintenanceWindow, ...], from_s: int, to_s: int
    ) -> tuple[Plan, Counting]:
        plan = self._plan(group, planned)
        window = Window(from_s * SECOND_NS, to_s * SECOND_NS)
        return plan, plan.counting(self._store.classes(window, plan.cuts, plan.dimensions, GRID_S), from_s, to_s)

    def _plan(self, group: Sequence[Known], planned: tuple[MaintenanceWindow, ...]) -> Plan:
        key = tuple(one.definition for one in group), planned
        found = self._plans.get(key)
        if found is None:
            found = Plan([one.objective for one in group], planned, key[0])
            self._plans = {**dict(list(self._plans.items())[-3:]), key: found}
        return found

    def _histogram(
        self, one: Known, indicator: Histogram, planned: tuple[MaintenanceWindow, ...], from_s: int, to_s: int
    ) -> dict[Split, Block]:
        block = grown(self._store, indicator, from_s, to_s)
        for each in planned:
            if each.concerns(one.objective.slug) and not each.scope:
                for span in each.occurrences(Span(from_s * SECOND_NS, to_s * SECOND_NS)):
                    low, high = span.from_ns // SECOND_NS - from_s, span.to_ns // SECOND_NS - from_s
                    block[:, max(0, low // GRID_S) : max(0, -(-high // GRID_S))] = 0
        return {(): block}


class _Search:
    def __init__(self) -> None:
        self.questions = 0
        self._until = time.monotonic() + LONGEST_S

    @property
    def is_over(self) -> bool:
        return self.questions >= MOST_QUESTIONS or time.monotonic() > self._until
