"""Evaluates an objective from its counts: verdicts, budget and state."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from controlplane.core.formatting import TEXT
from controlplane.slo.core.alert import Alert, State
from controlplane.slo.core.budget import budget
from controlplane.slo.core.burn import Verdict, judge, worst
from controlplane.slo.core.counts import Counts
from controlplane.slo.core.gaps import Gap, gaps_of, seconds_in
from controlplane.slo.core.gaps import document as gap_document
from controlplane.slo.core.maintenance_windows import MaintenanceWindow
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.period import SECOND_NS, Span, period_at


@dataclass(frozen=True, slots=True)
class Evaluation:
    """An alert with the numbers that its page shows."""

    alert: Alert
    counts: Counts  # of the period so far
    period: Span
    why: str = ""  # why the state is unknown; else empty
    counted_since_s: int = 0  # the oldest hour that is counted without a gap, s since the epoch
    note: str = ""  # which values are not judged; else empty
    recorded_since_s: int | None = None  # since when requests are recorded, s since the epoch
    gaps: Sequence[Gap] = ()  # of measurement, that may have its requests
    idle: tuple[str, ...] = ()  # it is unknown only because these pools have no replica
    meant: bool = False  # that is what policies have decided

    def document(self) -> dict[str, Any]:
        """As JSON."""
        alert = self.alert
        return {
            "verdicts": [verdict.document() for verdict in alert.verdicts],
            "budget": asdict(alert.budget) if alert.budget else None,
            "lasts_s": None if alert.lasts_s is None or alert.lasts_s == float("inf") else alert.lasts_s,
            "bad": self.counts.bad,
            "total": self.counts.total,
            "sli": None if self.counts.total == 0 else self.counts.good / self.counts.total,
            "period_from_ns": self.period.from_ns,
            "period_to_ns": self.period.to_ns,
            "counted_since_s": self.counted_since_s,
            "recorded_since_s": self.recorded_since_s,
            "unmeasured": gap_document(self.gaps, alert.scope, self.period, alert.at_ns),
            "revision": alert.objective.revision,
            "why": self.why,
            "note": self.note,
            **({"meant": True} if self.meant else {}),
        }


@dataclass(frozen=True, slots=True)
class Counted:
    """The counts of one objective in one scope."""

    windows: Mapping[int, Counts]  # by length, s
    period: Counts
    since_s: int  # s since the epoch; everything later is counted
    recorded_s: int | None = None  # since when requests are recorded, s since the epoch; None: not known
    requests: Mapping[int, Counts] | None = None  # of slices: the requests in the long windows

    @property
    def is_empty(self) -> bool:
        return not self.period.total and not any(counts.total for counts in self.windows.values())


def evaluate(
    objective: Objective,
    scope: Mapping[str, str],
    counted: Counted,
    at_ns: int,
    maintenance: Iterable[MaintenanceWindow],
    why: str = "",
    gaps: Sequence[Gap] = (),
    uncertain: str = "",
) -> Evaluation:
    """Evaluates an objective in one scope. `why`: the reason why counts cannot be trusted now; the state is then `unknown`.
    `uncertain`: the reason why they may lack some; it is then not quiet.

    A window that reaches into hours that are not counted yet does not fire; another may. The time before the first recorded
    request has no events. What was measured may fire; while most of a short window lies in gaps, nothing is said to be quiet.
    """
    period = period_at(objective.period, at_ns)
    reaches = {length: counted.since_s * SECOND_NS <= at_ns - length * SECOND_NS for length in counted.windows}
    windows = {length: counts if reaches[length] else Counts() for length, counts in counted.windows.items()}
    at_s, gaps = at_ns // SECOND_NS, gaps_of(gaps, scope)
    blind = [gap for gap in gaps if gap.blinds and 2 * gap.lost_share(scope) >= 1]
    measured = {
        window: reaches[window.long_s]
        and reaches[window.short_s]
        and 2 * seconds_in(blind, at_s - window.short_s, at_s) <= window.short_s
        for window in objective.windows
    }
    verdicts = [
        verdict if measured[verdict.window] else replace(verdict, measured=False)
        for verdict in judge(
            windows, objective.target, period.length_s, objective.windows, objective.minimum, counted.requests
        )
    ]
    firing = worst(verdicts)
    state: State = "unknown" if why else "firing" if firing else "quiet"
    if state == "quiet" and not all(reaches.values()):
        state, why = "unknown", "its history is still being counted"
    if state == "quiet" and uncertain:
        state, why = "unknown", uncertain
    blind_s = [window.short_s for window in objective.windows if not measured[window]]
    if state == "quiet" and blind_s:
        state, why = "unknown", f"most of the last {TEXT.duration(min(blind_s))} was not measured: {blind[-1].why}"
    left = budget(counted.period, objective.target)
    rate = _rate(verdicts, firing)
    return Evaluation(
        Alert(
            objective=objective,
            scope=scope,
            at_ns=at_ns,
            state=state,
            severity=firing.window.severity if firing and state == "firing" else None,
            verdicts=tuple(verdicts),
            budget=left,
            lasts_s=None if why else left.lasts_s(rate, period.length_s, elapsed_s(period, at_ns, counted.recorded_s)),
            maintenance=any(
                window.covers(objective.slug, scope) and window.occurrences(Span(at_ns, at_ns + 1))
                for window in maintenance
            ),
            unmeasured_s=seconds_in(gaps, period.from_ns // SECOND_NS, at_s),
        ),
        counted.period,
        period,
        why,
        counted.since_s,
        recorded_since_s=counted.recorded_s,
        gaps=gaps,
    )


def elapsed_s(period: Span, at_ns: int, recorded_s: int | None) -> int:
    """How much of the period has passed and was recorded, s."""
    from_ns = max(period.from_ns, (recorded_s or 0) * SECOND_NS)
    return max(0, min(at_ns, period.to_ns) - from_ns) // SECOND_NS


def unjudged(objective: Objective, scope: Mapping[str, str], at_ns: int, why: str) -> Evaluation:
    """The evaluation of an objective that could not be judged, for the reason `why`."""
    try:
        period = period_at(objective.period, at_ns)
    except ValueError:
        period = Span(at_ns, at_ns)
    return Evaluation(Alert(objective, scope, at_ns, "unknown", None, (), None, None), Counts(), period, why)


def _rate(verdicts: Sequence[Verdict], firing: Verdict | None) -> float | None:
    """The burn rate of the worst window that fires; of the longest where none does."""
    if firing is not None:
        return firing.long
    return max(verdicts, key=lambda verdict: verdict.window.long_s).long if verdicts else None
