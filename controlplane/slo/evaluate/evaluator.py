"""Evaluates all objectives, tick after tick, from tallies that follow the ledger.

A tick reads the last five minutes of the ledger again, because rows come late, are amended and withdrawn. Between ticks, hours that
are not counted yet are counted, newest first; then all hours are counted again in turn, so that any change in the ledger is found.

An objective that fails at any step is `unknown`, with the reason, and stops no other.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import structlog

from controlplane.slo.core.count_plan import Block, Split, late_of, requests_of, scope_of
from controlplane.slo.core.counts import Counts
from controlplane.slo.core.evaluation import Counted, Evaluation, evaluate, unjudged
from controlplane.slo.core.gaps import Gap
from controlplane.slo.core.maintenance_windows import MaintenanceWindow
from controlplane.slo.core.objective import Objective, Rolling, Timeslices
from controlplane.slo.core.period import MAX_PERIOD_S, SECOND_NS, Span, period_at
from controlplane.slo.core.sli import Histogram
from controlplane.slo.core.tallies import Series, Tallies, WindowSums
from controlplane.slo.core.windows import DAY_S, HOUR_S, MINUTE_S, MINUTES_S, lengths_s
from controlplane.slo.evaluate.kept_hours import KeptHours
from controlplane.slo.evaluate.known_objective import KnownObjective, known_objective, late_s, series_of
from controlplane.slo.evaluate.ledger_counts import LedgerQuery
from controlplane.slo.evaluate.unknown_figures import UnknownFigures
from controlplane.slo.isolation import isolated, reason
from controlplane.telemetry.store import Store, StoreLimitError

log = structlog.get_logger(__name__)

TAIL_S = 300
"""How far back a tick reads, s. Requests count when they began, and most are in the ledger within this time."""
MAX_SPLITS = 200
"""The most values of its split that an objective is judged for. Its page says when there are more."""


class Evaluator:
    """One per process. Not thread-safe. `retention_s` is how far back the ledger reaches."""

    def __init__(self, store: Store, retention_s: int = 30 * DAY_S) -> None:
        self._store, self._retention_s = store, retention_s
        self._query, self._kept = LedgerQuery(store), KeptHours(store)
        self._tallies = Tallies(24)
        self._known: dict[str, KnownObjective] = {}  # by slug
        self._maintenance: tuple[MaintenanceWindow, ...] = ()
        self._oldest_s: int | None = None  # when the oldest request that the ledger still has began
        self._again: list[int] = []  # hours to count again
        self._unknown = UnknownFigures(store)
        self._gaps: Sequence[Gap] = ()
        self._round = 0

    def tick(
        self,
        objectives: Sequence[Objective],
        maintenance: Sequence[MaintenanceWindow],
        now_ns: int,
        staleness: Callable[[Store], str] = lambda store: "",
        gaps: Sequence[Gap] = (),
    ) -> list[Evaluation]:
        """Evaluate every objective at `now_ns`. `staleness` returns why the ledger cannot be trusted, or "".

        `gaps`: times that the ledger has not measured, in order.

        Raises StoreUnavailableError and StoreError where the ledger cannot be read.
        """
        self._gaps, now_s = gaps, now_ns // SECOND_NS
        oldest_ns = self._store.objectives.oldest_entry()
        self._oldest_s = None if oldest_ns is None else oldest_ns // SECOND_NS
        self._take(objectives, tuple(maintenance), now_s)
        before = self._tallies.hours.head
        self._tallies.advance(now_s)
        if before and before < self._tallies.hours.head:
            self._again += range(before - 1, self._tallies.hours.head - 1)
        methods = [known.objective.method for known in self._counted()]
        step_s = math.lcm(MINUTE_S, *(method.slice_s for method in methods if isinstance(method, Timeslices)))
        from_s, to_s = (now_s - TAIL_S) // step_s * step_s, -(-(now_s + 1) // step_s) * step_s
        errors: list[Exception] = []

        def fail(known: KnownObjective, error: Exception) -> None:
            known.fail(error)
            errors.append(error)

        done = self._count(self._counted(), from_s, to_s, fail)
        if errors and not done and all(isinstance(error, StoreLimitError) for error in errors):
            raise errors[0]  # the store is out of memory or time for all
        for known in done:
            known.read(now_s, TAIL_S // 2)
            grown = self._query.grown.pop(known.objective.slug, None)
            known.uncertain, known.idle = (grown.uncertain, grown.idle) if grown else ("", ())
        self._unknown.look(done, now_s)
        return self._judge(now_ns, staleness(self._store))

    def sweep(self, now_ns: int) -> bool:
        """Count one more hour. True while there are hours that were never counted."""
        now_s = now_ns // SECOND_NS
        hour, chosen = self._next(now_s)
        try:
            done = self._count(
                chosen, hour * HOUR_S, (hour + 1) * HOUR_S, lambda known, error: known.fail_hour(error, hour)
            )
            for known in done:
                if known.missing and known.missing[-1] == hour:
                    known.missing.pop()
                    known.history_error = ""
            if hour < now_s // HOUR_S:
                self._kept.keep(self._tallies, [name for known in done for name in known.parts], hour)
        except Exception:
            if hour not in self._again:  # it was not counted, or not stored
                self._again.append(hour)
            raise
        return any(known.missing and not known.history_error for known in self._counted())

    @property
    def behind(self) -> int:
        """Hours that are not counted yet."""
        return max((len(known.missing) for known in self._known.values()), default=0)

    @property
    def errors(self) -> dict[str, str]:
        """Why objectives could not be counted, by slug."""
        return {slug: known.why for slug, known in self._known.items() if known.why}

    @property
    def nbytes(self) -> int:
        return self._tallies.nbytes

    def _counted(self) -> list[KnownObjective]:
        return [known for known in self._known.values() if not known.refused]

    def _take(self, objectives: Iterable[Objective], maintenance: tuple[MaintenanceWindow, ...], now_s: int) -> None:
        """Take over changed objectives and maintenance. Raises StoreUnavailableError; the next tick then tries again."""
        wanted = {objective.slug: objective for objective in objectives}
        same = maintenance == self._maintenance and wanted == {
            slug: known.objective for slug, known in self._known.items()
        }
        if same and not any(self._turned(known, now_s) for known in self._counted()):
            return
        taken = {slug: self._known_as(objective, now_s) for slug, objective in wanted.items()}
        new = [known for known in taken.values() if not known.loaded and not known.refused]
        self._tallies.keep(name for known in taken.values() for name in known.parts)
        self._tallies.reach(max((known.horizon_s for known in taken.values()), default=0) // HOUR_S + 1)
        self._tallies.advance(now_s)
        longest = max((known.horizon_s for known in new), default=0) // HOUR_S
        names = [name for known in new for name in known.parts]
        stored = self._kept.load(self._tallies, names, now_s // HOUR_S - longest, now_s // HOUR_S)
        for known in new:
            hours = [stored.get(name, frozenset()) for name in known.parts]
            known.missing = self._uncounted(known, frozenset.intersection(*hours), now_s)
            known.loaded = True
        self._known = taken
        changed = set(maintenance) ^ set(self._maintenance)
        self._maintenance = maintenance
        self._kept.forget({name for known in taken.values() for name in known.parts})
        self._forget([span for window in changed for span in window.occurrences(_reach(now_s, MAX_PERIOD_S))], now_s)

    def _known_as(self, objective: Objective, now_s: int) -> KnownObjective:
        """What is known already, where it is still valid: changes of names or targets do not change the counts."""
        before = self._known.get(objective.slug)
        if before is not None and before.objective == objective and not self._turned(before, now_s):
            return before
        fresh = known_objective(objective, now_s)
        if before is None or fresh.refused or before.refused:
            return fresh
        if fresh.parts.keys() <= before.parts.keys() and fresh.horizon_s <= before.horizon_s:
            return replace(before, objective=objective, late_s=fresh.late_s, parts=fresh.parts)
        return fresh

    def _turned(self, known: KnownObjective, now_s: int) -> bool:
        """Whether its calendar's period now begins at another minute of the hour, as after clocks change by half an hour."""
        return not known.refused and known.late_s != isolated(partial(late_s, known.objective, now_s))

    def _forget(self, spans: Iterable[Span], now_s: int) -> None:
        """Have the hours of added and removed maintenance counted again."""
        oldest = (now_s - self._retention_s) // HOUR_S
        hours = {
            hour
            for span in spans
            for hour in range(span.from_ns // SECOND_NS // HOUR_S, span.to_ns // SECOND_NS // HOUR_S + 1)
            if oldest <= hour <= now_s // HOUR_S
        }
        for known in self._counted() if hours else ():
            known.miss(hour for hour in hours if self._has(known, hour))

    def _uncounted(self, known: KnownObjective, stored: frozenset[int], now_s: int) -> list[int]:
        """Hours to count: all hours of the minute grid, because only hours are stored, and older hours that are not stored. No hour before
        the oldest request of the ledger is one.
        """
        newest = now_s // HOUR_S
        oldest = max(now_s - known.horizon_s, now_s - self._retention_s) // HOUR_S
        if not isinstance(known.objective.indicator, Histogram):
            oldest = max(oldest, newest if self._oldest_s is None else min(self._oldest_s // HOUR_S, newest))
        minutes = newest - MINUTES_S // HOUR_S
        return [hour for hour in range(oldest, newest + 1) if hour >= minutes or hour not in stored]

    def _since(self, known: KnownObjective) -> int | None:
        """Since when its requests are counted, s: the oldest in the ledger, or its oldest stored hour where that was another one."""
        oldest_s, oldest_hour = self._oldest_s, self._kept.oldest.get(known.definition)
        if oldest_hour is None or (oldest_s is not None and oldest_s < (oldest_hour + 1) * HOUR_S):
            return oldest_s
        return oldest_hour * HOUR_S

    def _has(self, known: KnownObjective, hour: int) -> bool:
        """Whether the ledger still has what was counted of an hour. Metrics are kept by themselves."""
        is_kept = self._oldest_s is not None and hour >= self._oldest_s // HOUR_S
        return is_kept or isinstance(known.objective.indicator, Histogram)

    def _count(
        self,
        chosen: Sequence[KnownObjective],
        from_s: int,
        to_s: int,
        fail: Callable[[KnownObjective, Exception], None],
    ) -> list[KnownObjective]:
        """Read the ledger between two times into the tallies. Returns the objectives that were counted."""
        blocks: dict[Series, Block] = {}
        done = []
        for known, counts in self._query.counts(chosen, self._maintenance, from_s, to_s):
            made = counts if isinstance(counts, Exception) else isolated(partial(self._made, known, counts, from_s))
            if isinstance(made, Exception):
                fail(known, made)
            else:
                blocks |= made
                done.append(known)
        self._tallies.put(blocks, [name for known in done for name in known.parts], from_s, to_s)
        return done

    def _made(self, known: KnownObjective, by_split: Mapping[Split, Block], from_s: int) -> dict[Series, Block]:
        return series_of(known, self._admitted(known, by_split), from_s)

    def _admitted(self, known: KnownObjective, by_split: Mapping[Split, Block]) -> Mapping[Split, Block]:
        """Without values whose requests are not counted, and without values beyond MAX_SPLITS."""
        if not known.objective.split_by:
            return by_split
        name = known.definition
        new = [split for split, block in by_split.items() if (name, split) not in self._tallies.rows and block[1].any()]
        room = MAX_SPLITS - sum(series[0] == name for series in self._tallies.rows) if new else 0
        if len(new) > room:
            for part in known.parts:
                self._tallies.forget_empty(part)
            room = MAX_SPLITS - sum(series[0] == name for series in self._tallies.rows)
        if new:
            too_many = f"it has more than {MAX_SPLITS} values: the later ones are not judged"
            known.note = too_many if len(new) > room else ""
        admitted = set(new[: max(room, 0)])
        return {
            split: block
            for split, block in by_split.items()
            if split in admitted or (name, split) in self._tallies.rows
        }

    def _judge(self, now_ns: int, why: str) -> list[Evaluation]:
        sums = WindowSums(self._tallies, now_ns // SECOND_NS)
        evaluations: list[Evaluation] = []
        for known in self._known.values():
            judged = isolated(partial(self._judged, known, sums, now_ns, why))
            if isinstance(judged, Exception):
                log.warning("objective.judge_failed", objective=known.objective.slug, error=reason(judged))
                text = f"it cannot be judged: {reason(judged)}"
                judged = [unjudged(known.objective, known.objective.scope, now_ns, text)]
            evaluations += judged
        return evaluations

    def _judged(self, known: KnownObjective, sums: WindowSums, now_ns: int, why: str) -> list[Evaluation]:
        objective, evaluations = known.objective, []
        if known.refused:
            return [unjudged(objective, objective.scope, now_ns, known.refused)]
        since_s = (known.missing[-1] + 1) * HOUR_S if known.missing else 0
        why = known.why or why
        gaps = () if isinstance(objective.indicator, Histogram) else self._gaps  # metrics' counters go on through a gap
        for split in sums.splits(known.definition):
            seen = self._seen(known, split, sums, since_s)
            unsure = why or self._unknown.why(known.definition, split)
            if split and not known.missing and seen.is_empty and not unsure:
                continue  # all its events are older than the period
            scope = scope_of(objective, split)
            judged = evaluate(objective, scope, seen, now_ns, self._maintenance, unsure, gaps, known.uncertain)
            idle = known.idle if judged.why == known.uncertain else ()
            evaluations.append(replace(judged, note=known.note, idle=idle))
        for split, text in self._unknown.elsewhere(known, set(sums.splits(known.definition))):
            evaluations.append(unjudged(objective, scope_of(objective, split), now_ns, text))
        if not evaluations and objective.split_by:  # no value has events yet
            none = Counted(dict.fromkeys(lengths_s(objective.windows), Counts()), Counts(), since_s, self._since(known))
            return [evaluate(objective, objective.scope, none, now_ns, self._maintenance, why, gaps)]
        return evaluations or [unjudged(objective, objective.scope, now_ns, why or "it has not been counted yet")]

    def _seen(self, known: KnownObjective, split: Split, sums: WindowSums, since_s: int) -> Counted:
        objective, requests = known.objective, None
        if isinstance(objective.method, Timeslices):
            under = requests_of(known.definition), split
            requests = {
                window.long_s: sums.window(under, objective.counted_s(window.long_s)) for window in objective.windows
            }
        series = known.definition, split
        return Counted(
            {length: sums.window(series, objective.counted_s(length)) for length in lengths_s(objective.windows)},
            self._period(known, split, sums),
            since_s,
            self._since(known),
            requests,
        )

    def _period(self, known: KnownObjective, split: Split, sums: WindowSums) -> Counts:
        """The counts of the period so far."""
        period, series = known.objective.period, (known.definition, split)
        if isinstance(period, Rolling):
            return sums.window(series, period.period_s)
        from_s = period_at(period, sums.now_s * SECOND_NS).from_ns // SECOND_NS
        counts = sums.since(series, from_s)
        if not known.late_s:
            return counts
        first = sums.hour((late_of(known.definition, known.late_s), split), from_s // HOUR_S)
        return Counts(counts.bad + first.bad, counts.total + first.total)

    def _next(self, now_s: int) -> tuple[int, list[KnownObjective]]:
        """The hour to count next, and for which objectives: the newest uncounted one; else one to count again; else the next in turn,
        every other time a recent one. Objectives that failed are tried again after all others.
        """
        every = self._counted()
        behind = [known for known in every if known.missing and not known.history_error]
        if behind:
            hour = max(known.missing[-1] for known in behind)
            return hour, [known for known in behind if known.missing[-1] == hour]
        if self._again:
            return self._again.pop(), every
        failed = [known for known in every if known.missing]
        self._round += 1
        if failed and self._round % 2:
            known = failed[self._round // 2 % len(failed)]
            return known.missing[-1], [known]
        reach = min(self._retention_s // HOUR_S, self._tallies.hours.capacity - 1)
        among = 6 if self._round % 2 else max(reach, 1)
        hour = now_s // HOUR_S - self._round // 2 % among
        return hour, [known for known in every if self._has(known, hour)]


def _reach(now_s: int, back_s: int) -> Span:
    return Span((now_s - back_s) * SECOND_NS, (now_s + DAY_S) * SECOND_NS)
