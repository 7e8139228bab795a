"""Observes canaries: what the ledger has of their two pools."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from controlplane.policy.core.canary import due_at, test_of
from controlplane.policy.core.memory import CanaryMemory
from controlplane.policy.core.observation import Arm, CanaryCounts, Measured, Stratum
from controlplane.policy.core.sequential import design_effect, first_share
from controlplane.policy.core.spec import Canary, CanarySpec, InForce
from controlplane.telemetry.core.canary_rows import CanaryReading, CanaryRow
from controlplane.telemetry.store import Store

SETTLED_MS = 60_000
"""Requests that began later are left out: of these only the fast ones have ended. The first looks do without it, because they are at
failures alone, and what has ended until now is as small a part of both pools' requests.
"""


WHOLE_EVERY_MS = 60_000
"""A canary's whole time is counted again so often, for pages, and for requests that reached the ledger late."""
MS_NS = 1_000_000


@dataclass(frozen=True, slots=True)
class _Counted:
    """The last count of a canary's whole time, and the candidate's requests that were seen after it."""

    entered: tuple[tuple[int, int], ...]
    counts: CanaryCounts
    until_ms: int
    """How far the requests after it were counted."""
    since: int = 0
    is_early: bool = False
    """Too few were served for anything but failures to be judged: all that have ended are counted."""

    @property
    def served(self) -> int:
        """By the candidate, in the whole time that was counted."""
        return sum(stratum.candidate.requests for stratum in self.counts.strata)


class Counter:
    """Counts the requests of canaries, again and again.

    What is slow depends on the baseline's quantile, so that a count is of a canary's whole time. It is made where something may be
    concluded from it, and each minute. In between only the candidate's requests that are new are counted, to know when that is.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._counted: dict[str, _Counted] = {}

    def counts(
        self, policies: Iterable[InForce], memory: Mapping[str, CanaryMemory], now_ms: int
    ) -> dict[str, CanaryCounts]:
        """What is known of each canary that runs, by name of its policy. Raises StoreUnavailableError or StoreError."""
        counted = {}
        for each in policies:
            standing = memory.get(each.name)
            if not isinstance(each.policy, Canary) or standing is None:
                continue
            if standing.outcome == "running" and standing.digest == each.spec_digest:
                counted[each.name] = self._newest(each.policy.spec, standing, self._counted.get(each.name), now_ms)
        self._counted = counted
        return {name: each.counts for name, each in counted.items()}

    def _newest(self, spec: CanarySpec, standing: CanaryMemory, last: _Counted | None, now_ms: int) -> _Counted:
        if last is None or last.is_early:
            early = self._until(spec, standing, last, now_ms)
            if early.served + early.since < first_share(test_of(spec)):
                return replace(early, is_early=True)
            last = None
        return self._until(spec, standing, last, max(now_ms - SETTLED_MS, standing.entered[0][0]))

    def _until(self, spec: CanarySpec, standing: CanaryMemory, last: _Counted | None, until_ms: int) -> _Counted:
        if last is None or last.entered != standing.entered or until_ms >= last.counts.until_ms + WHOLE_EVERY_MS:
            return self._whole(spec, standing, until_ms)
        until_ms = max(until_ms, last.until_ms)
        new = self._store.canaries.requests(spec.model, spec.candidate, last.until_ms * MS_NS, until_ms * MS_NS)
        now = replace(last, since=last.since + new, until_ms=until_ms)
        is_due = last.served < due_at(spec, standing) <= now.served + now.since
        return self._whole(spec, standing, until_ms) if is_due else now

    def _whole(self, spec: CanarySpec, standing: CanaryMemory, until_ms: int) -> _Counted:
        starts = [since_ms for since_ms, _ in standing.entered]
        reading = self._store.canaries.reading(
            spec.model,
            spec.baseline,
            spec.candidate,
            [since_ms * MS_NS for since_ms in starts],
            until_ms * MS_NS,
            spec.latency_quantile,
            spec.latency_tolerance,
            test_of(spec).measures,
        )
        return _Counted(standing.entered, summed(spec, reading, starts, until_ms), until_ms)


def summed(spec: CanarySpec, reading: CanaryReading, starts_ms: list[int], until_ms: int) -> CanaryCounts:
    """The reading as the counts of each stratum."""
    last = len(starts_ms) - 1

    def arm(stratum: int, pool: str) -> Arm:
        rows = [row for row in reading.rows if (row.stratum, row.pool) == (stratum, pool)]
        names = ("requests", "failed", "answered", "slow", "too_slow")
        return Arm(
            **{name: sum(getattr(row, name) for row in rows) for name in names},
            measures={
                row.measure: Measured(row.known, row.high, row.too_high)
                for row in reading.measured
                if (row.stratum, row.pool) == (stratum, pool)
            },
        )

    return CanaryCounts(
        since_ms=starts_ms[0],
        until_ms=until_ms,
        strata=tuple(
            Stratum(candidate=arm(stratum, spec.candidate), baseline=arm(stratum, spec.baseline))
            for stratum in range(len(starts_ms))
        ),
        candidate_design_effect=_effect(reading.rows, spec.candidate),
        baseline_design_effect=_effect(reading.rows, spec.baseline),
        candidate_ms=reading.quantiles_ms.get((last, spec.candidate)),
        baseline_ms=reading.quantiles_ms.get((last, spec.baseline)),
        age_ms=0,
    )


def _effect(rows: Iterable[CanaryRow], pool: str) -> float:
    return design_effect((row.answered, row.slow) for row in rows if row.pool == pool)
