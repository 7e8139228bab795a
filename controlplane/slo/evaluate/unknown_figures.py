"""Finds the objectives over requests whose figure nobody knows: those are neither good nor bad, and what is left may say nothing."""

import time
from collections.abc import Iterable, Iterator
from functools import partial

from controlplane.core.formatting import TEXT
from controlplane.slo.core.count_plan import Split
from controlplane.slo.core.objective import Objective, Timeslices
from controlplane.slo.core.period import SECOND_NS
from controlplane.slo.core.sli import Cost, Latency
from controlplane.slo.evaluate.known_objective import KnownObjective
from controlplane.slo.isolation import isolated, reason
from controlplane.telemetry.core.query_types import AT_THE_SERVER, Window
from controlplane.telemetry.store import Store

BACK_S = 3_600
"""A request whose figure is not known counts for so long."""
EVERY_S = 30
MAX_LOOK_S = 2.0
"""Of a tick: the others are looked at with the next, so that a slow store delays no judgement for long."""


class UnknownFigures:
    """Of cost objectives, and of those on a stage that only spans of a server tell."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._why: dict[str, dict[Split, str]] = {}  # by definition, as the others
        self._failed: dict[str, str] = {}
        self._looked_s: dict[str, int] = {}

    def look(self, objectives: Iterable[KnownObjective], now_s: int) -> None:
        """Count them for the objectives among these that may have some, at most every EVERY_S, those first that were looked at longest ago.
        Raises StoreUnavailableError.
        """
        window = Window((now_s - BACK_S) * SECOND_NS, (now_s + 1) * SECOND_NS)
        until_s = time.monotonic() + MAX_LOOK_S
        for known in sorted(objectives, key=lambda each: self._looked_s.get(each.definition, 0)):
            objective, name = known.objective, known.definition
            measure = _measure(objective)
            if not measure or now_s - self._looked_s.get(name, 0) < EVERY_S:
                continue
            what = "had a price" if measure == "cost" else f"have a {measure} time"
            if time.monotonic() > until_s:
                if name not in self._looked_s:
                    self._failed[name] = f"whether its requests {what} is not known: it was not looked at yet"
                continue
            texts = isolated(partial(self._unpriced if measure == "cost" else self._unmeasured, window, objective))
            if isinstance(texts, Exception):  # what was counted before still says most
                self._failed[name] = f"whether its requests {what} is not known: {reason(texts)}"
            else:
                self._why[name] = texts
                self._failed.pop(name, None)
            self._looked_s[name] = now_s

    def why(self, name: str, split: Split) -> str:
        """Why the objective's state is unknown there; empty where it is known of enough requests. `name`: its definition."""
        return self._why.get(name, {}).get(split, "") or self._failed.get(name, "")

    def elsewhere(self, known: KnownObjective, splits: set[Split]) -> Iterator[tuple[Split, str]]:
        """The other values of its split that have such requests, and none that counts."""
        if known.objective.split_by:
            for split in self._why.get(known.definition, {}).keys() - splits:
                yield split, self.why(known.definition, split)

    def _unpriced(self, window: Window, objective: Objective) -> dict[Split, str]:
        counted = self._store.objectives.unpriced(window, objective.scope, objective.split_by)
        return {split: _of_cost(*counts) for split, counts in counted.items()}

    def _unmeasured(self, window: Window, objective: Objective) -> dict[Split, str]:
        counted = self._store.objectives.unmeasured(window, objective.scope, objective.split_by)
        method = objective.method
        target = method.slice_target if isinstance(method, Timeslices) else objective.target
        return {
            split: f"{unmeasured:,} of {TEXT.counted(answered, 'request')} of the last hour have no spans of their server,"
            f" so their {_measure(objective)} time is not known"
            for split, (unmeasured, answered) in counted.items()
            if answered - unmeasured < target * answered  # these alone could miss it
        }


def _measure(objective: Objective) -> str:
    """What nobody may know of a request; empty where all of it is known."""
    match objective.indicator:
        case Cost():
            return "cost"
        case Latency(measure=measure) if measure in AT_THE_SERVER:
            return measure
    return ""


def _of_cost(without: int, uncounted: int) -> str:
    if without:
        return f"{TEXT.counted(without, 'request')} of the last hour had no price: enter prices in the fleet"
    requests = TEXT.counted(uncounted, "request")
    return f"the server counted no tokens of the answers to {requests} of the last hour, so what they cost is not known"
