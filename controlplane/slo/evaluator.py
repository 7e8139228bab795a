"""Evaluates all objectives, tick after tick: reads what is new, keeps the tallies, and says how each objective does.

A tick reads the last five minutes of the ledger again, because rows come late, are amended and withdrawn. Between ticks it counts
hours that it has not counted yet, newest first, and then hours that it has, round and round: so whatever changes in the
ledger is found, and the tallies are never more than a round away from it.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import structlog

from controlplane.slo.counts import Counts
from controlplane.slo.edges import grown
from controlplane.slo.evaluation import Counted, Evaluation, evaluate, horizon_s, unjudged
from controlplane.slo.maintenance import Planned
from controlplane.slo.objective import Objective, Rolling, Timeslices
from controlplane.slo.period import SECOND_NS, Span, period_at
from controlplane.slo.plan import GRID_S, Block, Plan, Split, definition, scope_of
from controlplane.slo.sli import Histogram
from controlplane.slo.tallies import DAY_S, HOUR_S, MINUTES_S, Series, Sums, Tallies
from controlplane.slo.windows import lengths_s
from controlplane.telemetry.store import Store, StoreError
from controlplane.telemetry.store.objectives import TALLY_SCHEMA
from controlplane.telemetry.store.types import Window

log = structlog.get_logger(__name__)

TAIL_S = 300
"""Read again with every tick: a request counts when it began, and most of them are in the ledger within this."""
MOST_SPLITS = 200
"""Values that one objective is judged for by itself; what comes after them is not judged, and its page says so."""
LONGEST_S = 400 * DAY_S


@dataclass
class Known:
    """An objective that is counted."""

    objective: Objective
    definition: str
    horizon_s: int
    missing: list[int]  # hours not counted yet, ascending
    error: str = ""  # why it could not be counted the last time
    note: str = ""  # what is not judged of it


class Evaluator:
    """One process's. Not thread-safe. `retention_s` is how far back the ledger reaches."""

    def __init__(self, store: Store, retention_s: int = 30 * DAY_S) -> None:
        self._store, self._retention_s = store, retention_s
        self._tallies = Tallies(24)
        self._known: dict[str, Known] = {}
        self._definitions: dict[str, tuple[Objective, str]] = {}
        self._planned: tuple[Planned, ...] = ()
        self._plan = Plan([])
        self._stored: dict[
            tuple[str, int], int
        ] = {}  # a hash of what the store has of an hour, to write only what changed
        self._again: list[int] = []  # hours to count again
        self._round = 0
        self._last_s = 0  # until when the ledger has been read without a gap

    def tick(
        self,
        objectives: Sequence[Objective],
        planned: Sequence[Planned],
        now_ns: int,
        doubt: Callable[[int | None], str] = lambda newest_ns: "",
    ) -> list[Evaluation]:
        """How each objective does at `now_ns`. `doubt` says, of when the newest request began, why the ledger is not to be believed.

        Raises StoreUnavailable and StoreError where the ledger cannot be read.
        """
        now_s = now_ns // SECOND_NS
        self._take(objectives, tuple(planned), now_s)
        before = self._tallies.hours.head
        self._tallies.advance(now_s)
        if before and before < self._tallies.hours.head:
            self._again += range(before - 1, self._tallies.hours.head - 1)
        if self._last_s and now_s - self._last_s > TAIL_S // 2:
            self._miss(range(self._last_s // HOUR_S, now_s // HOUR_S + 1))
        longest = max((one.slice_s for one in map(_method, objectives) if one), default=60)
        longest = max(longest, 60)
        from_s = (now_s - TAIL_S) // longest * longest
        self._count(self._plan, from_s, -(-(now_s + 1) // longest) * longest)
        self._last_s = now_s
        return self._judge(now_ns, doubt(self._store.newest_entry()))

    def sweep(self, now_ns: int) -> bool:
        """Count one more hour; whether there is one that had not been counted yet."""
        hour, known = self._next(now_ns // SECOND_NS)
        definitions = frozenset(one.definition for one in known)
        plan = self._plan if len(known) == len(self._known) else self._plan.only(definitions)
        failed = self._count(plan, hour * HOUR_S, (hour + 1) * HOUR_S, definitions)
        for one in known:
            if one.missing and one.missing[-1] == hour:
                one.missing.pop()
        if hour < now_ns // SECOND_NS // HOUR_S:
            self._keep(definitions - failed, hour)
        return self.behind > 0

    @property
    def behind(self) -> int:
        """Hours that are still to be counted."""
        return max((len(one.missing) for one in self._known.values()), default=0)

    @property
    def errors(self) -> dict[str, str]:
        """Why objectives could not be counted, by slug."""
        return {one.objective.slug: one.error for one in self._known.values() if one.error}

    @property
    def nbytes(self) -> int:
        return self._tallies.nbytes

    def _take(self, objectives: Iterable[Objective], planned: tuple[Planned, ...], now_s: int) -> None:
        """Let what is counted follow what is asked for."""
        wanted = {self._definition(one): one for one in objectives}
        if planned != self._planned:
            changed = set(planned) ^ set(self._planned)
            self._planned = planned
            self._forget([span for one in changed for span in one.occurrences(_reach(now_s, LONGEST_S))], now_s)
        elif wanted == {name: one.objective for name, one in self._known.items()}:
            return
        self._tallies.keep(wanted)
        self._tallies.reach(
            max((horizon_s(one, now_s * SECOND_NS) for one in wanted.values()), default=0) // HOUR_S + 1
        )
        self._tallies.advance(now_s)
        horizons = {name: horizon_s(one, now_s * SECOND_NS) for name, one in wanted.items()}
        new = {
            name: one
            for name, one in wanted.items()
            if name not in self._known or self._known[name].horizon_s < horizons[name]
        }
        hours = self._load(new, now_s)
        for name, one in new.items():
            missing = self._uncounted(one, hours.get(name, frozenset()), now_s)
            self._known[name] = Known(one, name, horizons[name], missing)
        self._known = {name: replace(self._known[name], objective=one) for name, one in wanted.items()}
        self._plan = Plan(wanted.values(), planned)

    def _definition(self, objective: Objective) -> str:
        known = self._definitions.get(objective.slug)
        if known is None or known[0] != objective:
            known = self._definitions[objective.slug] = (objective, definition(objective))
        return known[1]

    def _forget(self, spans: Iterable[Span], now_s: int) -> None:
        """What lies in a maintenance that was planned, or is no longer, is counted again."""
        oldest = (now_s - self._retention_s) // HOUR_S
        hours = {
            hour
            for span in spans
            for hour in range(span.from_ns // SECOND_NS // HOUR_S, span.to_ns // SECOND_NS // HOUR_S + 1)
            if oldest <= hour <= now_s // HOUR_S
        }
        self._miss(hours)

    def _miss(self, hours: Iterable[int]) -> None:
        for one in self._known.values():
            one.missing = sorted({*one.missing, *hours})

    def _uncounted(self, objective: Objective, stored: frozenset[int], now_s: int) -> list[int]:
        """Hours that must be read: all of the minute grid's, since only hours are stored, and older ones that are not."""
        newest = now_s // HOUR_S
        oldest = max(now_s - horizon_s(objective, now_s * SECOND_NS), now_s - self._retention_s) // HOUR_S
        kept = self._store.oldest_entry()
        if kept is not None and not isinstance(objective.indicator, Histogram):
            oldest = max(oldest, kept // SECOND_NS // HOUR_S)
        minutes = newest - MINUTES_S // HOUR_S
        return [hour for hour in range(oldest, newest + 1) if hour >= minutes or hour not in stored]

    def _load(self, new: Mapping[str, Objective], now_s: int) -> dict[str, frozenset[int]]:
        """Hours counted before this process began."""
        longest = max((horizon_s(one, now_s * SECOND_NS) for one in new.values()), default=0)
        newest = now_s // HOUR_S
        found: dict[str, set[int]] = {}
        for name, hour, splits, bad, total in _rows(self._store.tallies(list(new), newest - longest // HOUR_S, newest)):
            found.setdefault(name, set()).add(hour)
            for split, bad_, total_ in zip(splits, bad, total, strict=True):
                self._tallies.put_hours((name, _split(split)), hour, bad_, total_)
        return {name: frozenset(hours) for name, hours in found.items()}

    def _count(self, plan: Plan, from_s: int, to_s: int, definitions: frozenset[str] | None = None) -> frozenset[str]:
        """Read the ledger between two times into the tallies; the definitions that could not be."""
        chosen = [one for name, one in self._known.items() if definitions is None or name in definitions]
        blocks: dict[Series, Block] = {}
        done: set[str] = set()
        for name, by_split in self._requests(plan, from_s, to_s):
            done.add(name)
            blocks |= self._admitted(name, by_split)
        for one in chosen:
            if isinstance(one.objective.indicator, Histogram):
                try:
                    blocks[one.definition, ()] = self._grown(one.objective, one.objective.indicator, from_s, to_s)
                    done.add(one.definition)
                    one.error = ""
                except (StoreError, ValueError) as error:
                    self._failed(one, error)
        self._tallies.put(blocks, done, from_s, to_s)
        return frozenset(one.definition for one in chosen if one.definition not in done)

    def _requests(self, plan: Plan, from_s: int, to_s: int) -> Iterator[tuple[str, Mapping[Split, Block]]]:
        """One question for all; where the store refuses it, one for each half, until the one that it refuses is alone."""
        if not plan.tasks:
            return
        try:
            classes = self._store.classes(
                Window(from_s * SECOND_NS, to_s * SECOND_NS), plan.cuts, plan.dimensions, GRID_S
            )
        except StoreError as error:
            if len(plan.tasks) == 1:
                self._failed(self._known[plan.tasks[0].definition], error)
                return
            half = len(plan.tasks) // 2
            for tasks in (plan.tasks[:half], plan.tasks[half:]):
                yield from self._requests(plan.only(frozenset(one.definition for one in tasks)), from_s, to_s)
            return
        for task, by_split in plan.count(classes, from_s, to_s):
            self._known[task.definition].error = ""
            yield task.definition, by_split

    def _failed(self, one: Known, error: Exception) -> None:
        if one.error != str(error):
            log.warning("objective not counted", objective=one.objective.slug, error=str(error))
        one.error = str(error)

    def _admitted(self, name: str, by_split: Mapping[Split, Block]) -> dict[Series, Block]:
        known = [series for series in self._tallies.rows if series[0] == name] if len(by_split) > 1 else []
        room = MOST_SPLITS - len(known)
        found: dict[Series, Block] = {}
        for split, block in by_split.items():
            if split and (name, split) not in self._tallies.rows and not block[1].any():
                continue  # it has requests, and none that this objective counts
            if (name, split) not in self._tallies.rows and len(by_split) > 1:
                room -= 1
                if room < 0:
                    self._known[name].note = f"it has more than {MOST_SPLITS} values: those after them are not judged"
                    continue
            found[name, split] = block
        return found

    def _grown(self, objective: Objective, indicator: Histogram, from_s: int, to_s: int) -> Block:
        block = grown(self._store, indicator, from_s, to_s)
        for one in self._planned:
            if one.concerns(objective.slug) and not one.scope:
                for span in one.occurrences(Span(from_s * SECOND_NS, to_s * SECOND_NS)):
                    low, high = span.from_ns // SECOND_NS - from_s, span.to_ns // SECOND_NS - from_s
                    block[:, max(0, low // GRID_S) : max(0, -(-high // GRID_S))] = 0
        return block

    def _judge(self, now_ns: int, why: str) -> list[Evaluation]:
        now_s = now_ns // SECOND_NS
        lengths = {length for one in self._known.values() for length in lengths_s(one.objective.windows)}
        sums = {length: self._tallies.window(length, now_s) for length in lengths}
        periods: dict[Rolling | int, Sums] = {}
        rows: dict[str, list[tuple[Split, int]]] = {name: [] for name in self._known}
        for (name, split), row in self._tallies.rows.items():
            rows[name].append((split, row))
        found = []
        for name, one in self._known.items():
            since_s = (one.missing[-1] + 1) * HOUR_S if one.missing else 0
            try:
                period = self._period(one.objective, now_ns, periods)
                judged = 0
                for split, row in rows[name]:
                    counted = Counted(
                        {length: _counts(sums[length], row) for length in lengths_s(one.objective.windows)},
                        _counts(period, row),
                        since_s,
                    )
                    if split and not one.missing and counted.is_empty:
                        continue  # it is of before
                    judged += 1
                    scope = scope_of(one.objective, split)
                    evaluation = evaluate(one.objective, scope, counted, now_ns, self._planned, why or one.error)
                    found.append(replace(evaluation, note=one.note))
                if not judged:
                    found.append(self._nothing(one, since_s, now_ns, why or one.error))
            except ValueError as error:
                log.warning("objective not judged", objective=one.objective.slug, error=str(error))
                found.append(unjudged(one.objective, one.objective.scope, now_ns, str(error)))
        return found

    def _nothing(self, one: Known, since_s: int, now_ns: int, why: str) -> Evaluation:
        """Of an objective without a row: one that is split has seen no value yet, any other could not be counted."""
        objective = one.objective
        if not objective.split_by:
            return unjudged(objective, objective.scope, now_ns, why)
        none = Counted(dict.fromkeys(lengths_s(objective.windows), Counts()), Counts(), since_s)
        return evaluate(objective, objective.scope, none, now_ns, self._planned, why)

    def _period(self, objective: Objective, now_ns: int, known: dict[Rolling | int, Sums]) -> Sums:
        """Of the period so far, of every row; asked once for all objectives that share it."""
        now_s, period = now_ns // SECOND_NS, objective.period
        if isinstance(period, Rolling):
            if period not in known:
                known[period] = self._tallies.window(period.period_s, now_s)
            return known[period]
        start_s = period_at(period, now_ns).from_ns // SECOND_NS
        if start_s not in known:
            known[start_s] = self._tallies.since(start_s, now_s)
        return known[start_s]

    def _next(self, now_s: int) -> tuple[int, list[Known]]:
        """The newest hour that somebody misses; else one that is due; else the next of the round, every other time a recent one."""
        hour = max((one.missing[-1] for one in self._known.values() if one.missing), default=None)
        if hour is not None:
            return hour, [one for one in self._known.values() if one.missing and one.missing[-1] == hour]
        if self._again:
            return self._again.pop(), list(self._known.values())
        self._round += 1
        among = 6 if self._round % 2 else max(self._retention_s // HOUR_S, 1)
        return now_s // HOUR_S - self._round // 2 % among, list(self._known.values())

    def _keep(self, definitions: frozenset[str], hour: int) -> None:
        """Write down an hour that is over, where the store has it not, or otherwise."""
        columns: dict[str, list[object]] = {name: [] for name in TALLY_SCHEMA.names}
        counts: dict[str, list[tuple[str, int, int]]] = {name: [] for name in definitions}
        bad, total = self._tallies.hours.sums(hour, hour + 1)
        for (name, split), row in self._tallies.rows.items():
            if name in counts and (total[row] or not split):
                counts[name].append((json.dumps(split), int(bad[row]), int(total[row])))
        for name, found in counts.items():
            if self._stored.get((name, hour)) == hash(tuple(found)):
                continue
            self._stored[name, hour] = hash(tuple(found))
            splits, bads, totals = zip(*found, strict=True) if found else ((), (), ())
            values = (name, hour, time.time_ns(), splits, bads, totals)
            for column, value in zip(columns.values(), values, strict=True):
                column.append(value)
        self._store.insert_tallies(pa.table(columns, schema=TALLY_SCHEMA))


def _method(objective: Objective) -> Timeslices | None:
    return objective.method if isinstance(objective.method, Timeslices) else None


def _reach(now_s: int, back_s: int) -> Span:
    return Span((now_s - back_s) * SECOND_NS, (now_s + DAY_S) * SECOND_NS)


def _split(text: str) -> Split:
    return tuple(json.loads(text))


def _counts(sums: Sums, row: int) -> Counts:
    return Counts(int(sums[0][row]), int(sums[1][row]))


def _rows(table: pa.Table) -> Iterable[tuple[str, int, list[str], list[int], list[int]]]:
    return zip(*(table[name].to_pylist() for name in ("definition", "hour", "splits", "bad", "total")), strict=True)
