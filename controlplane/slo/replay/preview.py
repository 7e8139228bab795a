"""Replays several variants of an objective over the same requests."""

from collections.abc import Mapping, Sequence

from controlplane.slo.core.count_plan import Split, definition
from controlplane.slo.core.maintenance_windows import MaintenanceWindow
from controlplane.slo.core.objective import Objective
from controlplane.slo.replay.core.episodes import replay
from controlplane.slo.replay.core.history import History
from controlplane.slo.replay.core.variant import Variant
from controlplane.slo.replay.recorded_history import histories, step_of
from controlplane.telemetry.store import Store

MAX_SPLITS = 50
"""How many values of a split are replayed: those with the most events."""


def preview(
    store: Store, objectives: Mapping[str, Objective], maintenance: Sequence[MaintenanceWindow], from_s: int, to_s: int
) -> list[Variant]:
    """A variant for each of `objectives`, in their order. Variants that count the same requests are counted once.

    Raises ValueError where a window is longer than the period or a histogram cannot judge it, StoreUnavailableError and StoreError.
    """
    known: dict[tuple[str, object], dict[Split, History]] = {}
    variants = []
    for name, objective in objectives.items():
        longest_s = max((window.long_s for window in objective.windows), default=0)
        key = definition(objective), (objective.period, longest_s, step_of(objective))
        if key not in known:
            known[key] = histories(store, objective, maintenance, from_s, to_s)
        largest = sorted(known[key].items(), key=lambda item: -int(item[1].total.sum()))
        replays = {split: replay(history, objective) for split, history in largest[:MAX_SPLITS]}
        variants.append(Variant(name, objective, replays, max(0, len(largest) - MAX_SPLITS)))
    return variants
