"""An objective in the evaluator: what of it is counted, what is missing, and why it cannot be counted."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import structlog

from controlplane.slo.core.count_plan import Block, Split, definition, parts
from controlplane.slo.core.objective import Objective, Rolling
from controlplane.slo.core.period import SECOND_NS, check, horizon_s, period_at
from controlplane.slo.core.windows import HOUR_S
from controlplane.slo.isolation import isolated, reason

log = structlog.get_logger(__name__)


@dataclass
class KnownObjective:
    """`error`: why the newest minutes cannot be counted; `history_error`: why an older hour; `refused`: why the objective."""

    objective: Objective
    definition: str = ""
    horizon_s: int = 0
    late_s: int = 0  # its calendar's period begins this long after a full hour
    parts: Mapping[str, Callable[[Block, int], Block]] = field(default_factory=dict)
    missing: list[int] = field(default_factory=list)  # hours not counted yet, ascending
    loaded: bool = False  # stored hours are in the tallies
    read_s: int = 0  # until when it has been counted without a gap
    error: str = ""
    history_error: str = ""
    refused: str = ""
    note: str = ""  # which values are not judged
    uncertain: str = ""  # why the newest minutes may have been counted in part
    idle: tuple[str, ...] = ()  # the pools without a replica that this is for

    @property
    def why(self) -> str:
        """Why it cannot be judged now; empty where it can."""
        return self.refused or self.error or (self.history_error if self.missing else "")

    def miss(self, hours: Iterable[int]) -> None:
        self.missing = sorted({*self.missing, *hours})

    def read(self, now_s: int, tail_s: int) -> None:
        """Record that the last `tail_s` were counted. A gap before them is missing, so that uncounted time is not quiet."""
        if self.error:
            self.error = self.history_error = ""  # its history may succeed again, too
        if self.read_s and now_s - self.read_s > tail_s:
            self.miss(range(self.read_s // HOUR_S, now_s // HOUR_S + 1))
        self.read_s = now_s

    def fail(self, error: Exception) -> None:
        """Record why it cannot be counted now; logged once."""
        text = reason(error)
        if text != self.error:
            log.warning("objective.count_failed", objective=self.objective.slug, error=text)
        self.error = text

    def fail_hour(self, error: Exception, hour: int) -> None:
        text = f"an hour of its history cannot be counted: {reason(error)}"
        if text != self.history_error:
            log.warning("objective.hour_failed", objective=self.objective.slug, hour=hour, error=text)
        self.history_error = text


def late_s(objective: Objective, now_s: int) -> int:
    """How long after a full hour its calendar's period begins, s: 1800 for midnight in India, 600 for a start at 06:10."""
    if isinstance(objective.period, Rolling):
        return 0
    return period_at(objective.period, now_s * SECOND_NS).from_ns // SECOND_NS % HOUR_S


def known_objective(objective: Objective, now_s: int) -> KnownObjective:
    """An objective for the evaluator. `refused` says why one cannot be counted."""
    made = isolated(lambda: _counted(objective, now_s))
    if isinstance(made, KnownObjective):
        return made
    log.warning("objective.refused", objective=objective.slug, error=reason(made))
    return KnownObjective(objective, refused=reason(made))


def _counted(objective: Objective, now_s: int) -> KnownObjective:
    check(objective)
    name, late = definition(objective), late_s(objective, now_s)
    return KnownObjective(objective, name, horizon_s(objective), late, parts(objective, name, late))


def series_of(known: KnownObjective, by_split: Mapping[Split, Block], from_s: int) -> dict[tuple[str, Split], Block]:
    """Every series of an objective, made of its requests by split."""
    return {
        (name, split): made(block, from_s) for name, made in known.parts.items() for split, block in by_split.items()
    }
