"""Finds the cost objectives over requests whose cost nobody knows: those are neither good nor bad, and what is left says nothing."""

from collections.abc import Iterable, Iterator
from functools import partial

from controlplane.core.formatting import TEXT
from controlplane.slo.core.count_plan import Split
from controlplane.slo.core.period import SECOND_NS
from controlplane.slo.core.sli import Cost
from controlplane.slo.evaluate.known_objective import KnownObjective
from controlplane.slo.isolation import isolated, reason
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.store import Store

BACK_S = 3_600
"""A request without a price makes its objective unknown for so long."""
EVERY_S = 30


class Unpriced:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._requests: dict[str, dict[Split, tuple[int, int]]] = {}  # by definition, as the others
        self._failed: dict[str, str] = {}
        self._looked_s: dict[str, int] = {}

    def look(self, objectives: Iterable[KnownObjective], now_s: int) -> None:
        """Count them for the cost objectives among these, at most every EVERY_S. Raises StoreUnavailableError."""
        for known in objectives:
            objective, name = known.objective, known.definition
            due = now_s - self._looked_s.get(name, 0) >= EVERY_S
            if isinstance(objective.indicator, Cost) and due:
                window = Window((now_s - BACK_S) * SECOND_NS, (now_s + 1) * SECOND_NS)
                counted = isolated(
                    partial(self._store.objectives.unpriced, window, objective.scope, objective.split_by)
                )
                if isinstance(counted, Exception):  # what was counted before still says most
                    self._failed[name] = f"whether its requests had a price is not known: {reason(counted)}"
                else:
                    self._requests[name] = counted
                    self._failed.pop(name, None)
                self._looked_s[name] = now_s

    def why(self, name: str, split: Split) -> str:
        """Why the objective's state is unknown there; empty where the cost of all requests is known. `name`: its definition."""
        without, uncounted = self._requests.get(name, {}).get(split, (0, 0))
        if without:
            return f"{TEXT.counted(without, 'request')} of the last hour had no price: enter prices in the fleet"
        if uncounted:
            requests = TEXT.counted(uncounted, "request")
            return f"the server counted no tokens of the answers to {requests} of the last hour, so what they cost is not known"
        return self._failed.get(name, "")

    def elsewhere(self, known: KnownObjective, splits: set[Split]) -> Iterator[tuple[Split, str]]:
        """The other values of its split that have such requests, and none with a price."""
        if known.objective.split_by:
            for split in self._requests.get(known.definition, {}).keys() - splits:
                yield split, self.why(known.definition, split)
