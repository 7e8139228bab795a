"""Evaluates all objectives, tick after tick: reads what is new, keeps the tallies, and says how each objective does.

A tick reads the last five minutes of the ledger again, because rows come late, are amended and withdrawn. Between ticks it counts
hours that it has not counted yet, newest first, and then hours that it has, round and round: so whatever changes in the
ledger is found, and the tallies are never more than a round away from it.

An objective that fails, at whatever step, is `unknown` with the reason and ends no other's evaluation.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import structlog

from controlplane.slo.core.count_plan import Block, Split, late_of, requests_of, scope_of
from controlplane.slo.core.counts import Counts
from controlplane.slo.core.evaluation import Counted, Evaluation, evaluate, unjudged
from controlplane.slo.core.maintenance_windows import MaintenanceWindow
from controlplane.slo.core.objective import Objective, Rolling, Timeslices
from controlplane.slo.core.period import LONGEST_PERIOD_S, SECOND_NS, Span, period_at
from controlplane.slo.core.sli import Histogram
from controlplane.slo.core.tallies import Series, Sums, Tallies
from controlplane.slo.core.windows import DAY_S, HOUR_S, MINUTE_S, MINUTES_S, lengths_s
from controlplane.slo.evaluate.isolation import alone, reason
from controlplane.slo.evaluate.kept_hours import KeptHours
from controlplane.slo.evaluate.known_objective import Known, counted, known, late_s
from controlplane.slo.evaluate.ledger_counts import Asking
from controlplane.telemetry.store import Store

log = structlog.get_logger(__name__)

TAIL_S = 300
"""Read again with every tick: a request counts when it began, and most of them are in the ledger within this."""
MOST_SPLITS = 200
"""Values that one objective is judged for by itself; what comes after them is not judged, and its page says so."""


class Evaluator:
    """One process's. Not thread-safe. `retention_s` is how far back the ledger reaches."""

    def __init__(self, store: Store, retention_s: int = 30 * DAY_S) -> None:
        self._store, self._retention_s = store, retention_s
        self._asking, self._kept = Asking(store), KeptHours(store)
        self._tallies = Tallies(24)
        self._known: dict[str, Known] = {}  # by slug
        self._planned: tuple[MaintenanceWindow, ...] = ()
        self._recorded_s: int | None = None  # since when anything is recorded
        self._again: list[int] = []  # hours to count again
        self._round = 0

    def tick(
        self,
        objectives: Sequence[Objective],
        planned: Sequence[MaintenanceWindow],
        now_ns: int,
        doubt: Callable[[Store], str] = lambda store: "",
    ) -> list[Evaluation]:
        """How each objective does at `now_ns`. `doubt` asks the store, and says why the ledger is not to be believed.

        Raises StoreUnavailableError and StoreError where the ledger cannot be read.
        """
        now_s = now_ns // SECOND_NS
        self._take(objectives, tuple(planned), now_s)
        before = self._tallies.hours.head
        self._tallies.advance(now_s)
        if before and before < self._tallies.hours.head:
            self._again += range(before - 1, self._tallies.hours.head - 1)
        step_s = math.lcm(MINUTE_S, *self._slices_s())
        from_s, to_s = (now_s - TAIL_S) // step_s * step_s, -(-(now_s + 1) // step_s) * step_s
        for one in self._count(self._counted(), from_s, to_s, Known.fail):
            one.read(now_s, TAIL_S // 2)
        self._recorded_s = self._since()
        return self._judge(now_ns, doubt(self._store))

    def sweep(self, now_ns: int) -> bool:
        """Count one more hour; whether there is one that had not been counted yet."""
        now_s = now_ns // SECOND_NS
        hour, chosen = self._next(now_s)
        try:
            done = self._count(
                chosen, hour * HOUR_S, (hour + 1) * HOUR_S, lambda one, error: one.fail_hour(error, hour)
            )
            for one in done:
                if one.missing and one.missing[-1] == hour:
                    one.missing.pop()
                    one.history_error = ""
            if hour < now_s // HOUR_S:
                self._kept.keep(self._tallies, [name for one in done for name in one.parts], hour)
        except Exception:
            if hour not in self._again:  # it is not counted, or not in the store
                self._again.append(hour)
            raise
        return any(one.missing and not one.history_error for one in self._counted())

    @property
    def behind(self) -> int:
        """Hours that are still to be counted."""
        return max((len(one.missing) for one in self._known.values()), default=0)

    @property
    def errors(self) -> dict[str, str]:
        """Why objectives could not be counted, by slug."""
        return {slug: one.why for slug, one in self._known.items() if one.why}

    @property
    def nbytes(self) -> int:
        return self._tallies.nbytes

    def _counted(self) -> list[Known]:
        return [one for one in self._known.values() if not one.refused]

    def _slices_s(self) -> list[int]:
        methods = [one.objective.method for one in self._counted()]
        return [one.slice_s for one in methods if isinstance(one, Timeslices)]

    def _take(self, objectives: Iterable[Objective], planned: tuple[MaintenanceWindow, ...], now_s: int) -> None:
        """Let what is counted follow what is asked for. Raises StoreUnavailableError: then nothing was taken, and the next tick does."""
        wanted = {one.slug: one for one in objectives}
        same = planned == self._planned and wanted == {slug: one.objective for slug, one in self._known.items()}
        if same and not any(self._turned(one, now_s) for one in self._counted()):
            return
        taken = {slug: self._known_as(one, now_s) for slug, one in wanted.items()}
        new = [one for one in taken.values() if not one.loaded and not one.refused]
        self._tallies.keep(name for one in taken.values() for name in one.parts)
        self._tallies.reach(max((one.horizon_s for one in taken.values()), default=0) // HOUR_S + 1)
        self._tallies.advance(now_s)
        oldest = self._store.oldest_entry() if new else None
        longest = max((one.horizon_s for one in new), default=0) // HOUR_S
        names = [name for one in new for name in one.parts]
        stored = self._kept.load(self._tallies, names, now_s // HOUR_S - longest, now_s // HOUR_S)
        for one in new:
            hours = [stored.get(name, frozenset()) for name in one.parts]
            one.missing = self._uncounted(one, frozenset.intersection(*hours), oldest, now_s)
            one.loaded = True
        self._known = taken
        changed = set(planned) ^ set(self._planned)
        self._planned = planned
        self._kept.forget({name for one in taken.values() for name in one.parts})
        self._forget([span for one in changed for span in one.occurrences(_reach(now_s, LONGEST_PERIOD_S))], now_s)

    def _known_as(self, objective: Objective, now_s: int) -> Known:
        """What is known of it already, where that is still true: what is only said about an objective may change."""
        before = self._known.get(objective.slug)
        if before is not None and before.objective == objective and not self._turned(before, now_s):
            return before
        found = known(objective, now_s)
        if before is None or found.refused or before.refused:
            return found
        if found.parts.keys() <= before.parts.keys() and found.horizon_s <= before.horizon_s:
            return replace(before, objective=objective, late_s=found.late_s, parts=found.parts)
        return found

    def _turned(self, one: Known, now_s: int) -> bool:
        """Whether its calendar's period now begins at another minute of the hour, as where clocks are set by half an hour."""
        return not one.refused and one.late_s != alone(partial(late_s, one.objective, now_s))

    def _forget(self, spans: Iterable[Span], now_s: int) -> None:
        """What lies in a maintenance that was planned, or is no longer, is counted again."""
        oldest = (now_s - self._retention_s) // HOUR_S
        hours = {
            hour
            for span in spans
            for hour in range(span.from_ns // SECOND_NS // HOUR_S, span.to_ns // SECOND_NS // HOUR_S + 1)
            if oldest <= hour <= now_s // HOUR_S
        }
        if hours:
            for one in self._counted():
                one.miss(hours)

    def _uncounted(self, one: Known, stored: frozenset[int], kept_ns: int | None, now_s: int) -> list[int]:
        """Hours that must be read: all of the minute grid's, since only hours are stored, and older ones that are not."""
        newest = now_s // HOUR_S
        oldest = max(now_s - one.horizon_s, now_s - self._retention_s) // HOUR_S
        if kept_ns is not None and not isinstance(one.objective.indicator, Histogram):
            oldest = max(oldest, min(kept_ns // SECOND_NS // HOUR_S, newest))
        minutes = newest - MINUTES_S // HOUR_S
        return [hour for hour in range(oldest, newest + 1) if hour >= minutes or hour not in stored]

    def _since(self) -> int | None:
        """Since when requests are recorded, s: the oldest that the ledger has, or the oldest hour that was kept of it."""
        oldest_ns = self._store.oldest_entry()
        known_s = [] if oldest_ns is None else [oldest_ns // SECOND_NS]
        known_s += [] if self._kept.oldest is None else [self._kept.oldest * HOUR_S]
        return min(known_s, default=None)

    def _count(
        self, chosen: Sequence[Known], from_s: int, to_s: int, fail: Callable[[Known, Exception], None]
    ) -> list[Known]:
        """Read the ledger between two times into the tallies; those that were counted."""
        blocks: dict[Series, Block] = {}
        done = []
        for one, found in self._asking.ask(chosen, self._planned, from_s, to_s):
            made = found if isinstance(found, Exception) else alone(partial(self._made, one, found, from_s))
            if isinstance(made, Exception):
                fail(one, made)
            else:
                blocks |= made
                done.append(one)
        self._tallies.put(blocks, [name for one in done for name in one.parts], from_s, to_s)
        return done

    def _made(self, one: Known, by_split: Mapping[Split, Block], from_s: int) -> dict[Series, Block]:
        return counted(one, self._admitted(one, by_split), from_s)

    def _admitted(self, one: Known, by_split: Mapping[Split, Block]) -> Mapping[Split, Block]:
        """Without values that have only requests that are not counted, and without those beyond the most."""
        if not one.objective.split_by:
            return by_split
        name = one.definition
        new = [split for split, block in by_split.items() if (name, split) not in self._tallies.rows and block[1].any()]
        room = MOST_SPLITS - sum(series[0] == name for series in self._tallies.rows) if new else 0
        if len(new) > room:
            for part in one.parts:
                self._tallies.forget_empty(part)
            room = MOST_SPLITS - sum(series[0] == name for series in self._tallies.rows)
        if new:
            too_many = f"it has more than {MOST_SPLITS} values: those after them are not judged"
            one.note = too_many if len(new) > room else ""
        admitted = set(new[: max(room, 0)])
        return {
            split: block
            for split, block in by_split.items()
            if split in admitted or (name, split) in self._tallies.rows
        }

    def _judge(self, now_ns: int, why: str) -> list[Evaluation]:
        sums: dict[int, Sums] = {}
        rows: dict[str, dict[Split, int]] = {}
        for (name, split), row in self._tallies.rows.items():
            rows.setdefault(name, {})[split] = row
        found: list[Evaluation] = []
        for one in self._known.values():
            judged = alone(partial(self._judged, one, rows, sums, now_ns, why))
            if isinstance(judged, Exception):
                log.warning("objective.judge_failed", objective=one.objective.slug, error=reason(judged))
                text = f"it cannot be judged: {reason(judged)}"
                judged = [unjudged(one.objective, one.objective.scope, now_ns, text)]
            found += judged
        return found

    def _judged(
        self, one: Known, rows: Mapping[str, Mapping[Split, int]], sums: dict[int, Sums], now_ns: int, why: str
    ) -> list[Evaluation]:
        objective, found = one.objective, []
        if one.refused:
            return [unjudged(objective, objective.scope, now_ns, one.refused)]
        since_s = (one.missing[-1] + 1) * HOUR_S if one.missing else 0
        why = one.why or why
        for split, row in rows.get(one.definition, {}).items():
            seen = self._seen(one, split, row, rows, sums, now_ns // SECOND_NS, since_s)
            if split and not one.missing and seen.is_empty:
                continue  # it is of before
            scope = scope_of(objective, split)
            found.append(replace(evaluate(objective, scope, seen, now_ns, self._planned, why), note=one.note))
        if not found and objective.split_by:  # no value was seen yet
            none = Counted(dict.fromkeys(lengths_s(objective.windows), Counts()), Counts(), since_s, self._recorded_s)
            return [evaluate(objective, objective.scope, none, now_ns, self._planned, why)]
        return found or [unjudged(objective, objective.scope, now_ns, why or "it has not been counted yet")]

    def _seen(
        self,
        one: Known,
        split: Split,
        row: int,
        rows: Mapping[str, Mapping[Split, int]],
        sums: dict[int, Sums],
        now_s: int,
        since_s: int,
    ) -> Counted:
        objective, requests = one.objective, None

        def window(length_s: int, of: int) -> Counts:
            length_s = objective.counted_s(length_s)
            if length_s not in sums:
                sums[length_s] = self._tallies.window(length_s, now_s)
            bad, total = sums[length_s]
            return Counts(int(bad[of]), int(total[of]))

        under = rows.get(requests_of(one.definition), {}).get(split)
        if isinstance(objective.method, Timeslices):
            requests = {
                each.long_s: Counts() if under is None else window(each.long_s, under) for each in objective.windows
            }
        return Counted(
            {length: window(length, row) for length in lengths_s(objective.windows)},
            self._period(one, split, row, rows, sums, now_s),
            since_s,
            self._recorded_s,
            requests,
        )

    def _period(
        self,
        one: Known,
        split: Split,
        row: int,
        rows: Mapping[str, Mapping[Split, int]],
        sums: dict[int, Sums],
        now_s: int,
    ) -> Counts:
        """Of the period so far; sums are asked once for all objectives that share it (by its start, where it has one, below 0)."""
        period = one.objective.period
        from_s = 0 if isinstance(period, Rolling) else period_at(period, now_s * SECOND_NS).from_ns // SECOND_NS
        key = period.period_s if isinstance(period, Rolling) else -from_s
        if key not in sums:
            sums[key] = self._tallies.window(key, now_s) if key >= 0 else self._tallies.since(from_s, now_s)
        bad, total = int(sums[key][0][row]), int(sums[key][1][row])
        late = rows.get(late_of(one.definition, one.late_s), {}).get(split) if one.late_s else None
        if late is not None:
            first_bad, first_total = self._tallies.hour(from_s // HOUR_S, late)
            bad, total = bad + first_bad, total + first_total
        return Counts(bad, total)

    def _next(self, now_s: int) -> tuple[int, list[Known]]:
        """The newest hour that somebody misses; else one that is due; else the next of the round, every other time a recent one.

        Whoever failed is tried again once a tick, after all others.
        """
        every = self._counted()
        behind = [one for one in every if one.missing and not one.history_error]
        if behind:
            hour = max(one.missing[-1] for one in behind)
            return hour, [one for one in behind if one.missing[-1] == hour]
        if self._again:
            return self._again.pop(), every
        failed = [one for one in every if one.missing]
        self._round += 1
        if failed and self._round % 2:
            one = failed[self._round // 2 % len(failed)]
            return one.missing[-1], [one]
        reach = min(self._retention_s // HOUR_S, self._tallies.hours.capacity - 1)
        among = 6 if self._round % 2 else max(reach, 1)
        return now_s // HOUR_S - self._round // 2 % among, every


def _reach(now_s: int, back_s: int) -> Span:
    return Span((now_s - back_s) * SECOND_NS, (now_s + DAY_S) * SECOND_NS)
