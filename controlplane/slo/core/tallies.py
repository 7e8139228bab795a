"""Keeps good and bad events by time for all objectives, so that a window's count is a sum over a few columns.

There are three grids: 10 s, a minute, an hour. A window of length L at a time t is the last L of the finest grid that reaches so
far back, including the step that contains t. Its count is exactly that of the ledger between these two edges.
Tallies live in memory: after a restart hours come from the store, and the rest is counted again. Not thread-safe.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from controlplane.slo.core.count_plan import GRID_S, Block, Split
from controlplane.slo.core.counts import Counts
from controlplane.slo.core.windows import FINE_S, HOUR_S, MINUTE_S, MINUTES_S, grid_s

Series = tuple[str, Split]
"""A definition, and the values that it is split by."""
Sums = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Bad and total of each row."""


class Ring:
    """Columns of one grid, for the newest `capacity` steps; rows are series."""

    def __init__(self, step_s: int, capacity: int) -> None:
        self.step_s, self.capacity = step_s, capacity
        self.head = 0  # the step after the newest, since the epoch
        self.counts = np.zeros((2, 0, capacity), np.int32)

    def resize(self, kept: Sequence[int], rows: int) -> None:
        """Keep these rows, in this order, and add empty ones up to `rows`."""
        counts = np.zeros((2, rows, self.capacity), np.int32)
        counts[:, : len(kept)] = self.counts[:, kept]
        self.counts = counts

    def advance(self, head: int) -> None:
        """Make room up to `head`, dropping the oldest steps."""
        fresh = min(head - self.head, self.capacity)
        if fresh > 0:
            self.counts[:, :, np.arange(head - fresh, head) % self.capacity] = 0
            self.head = head

    def put(self, rows: npt.NDArray[np.int64], first: int, counts: npt.NDArray[np.int32]) -> None:
        """Replace `counts.shape[2]` steps from `first` on; those outside the ring are dropped."""
        low, high = max(first, self.head - self.capacity), min(first + counts.shape[2], self.head)
        if low < high:
            columns = np.arange(low, high) % self.capacity
            self.counts[:, rows[:, None], columns[None, :]] = counts[:, :, low - first : high - first]

    def sums(self, low: int, high: int, rows: slice | npt.NDArray[np.int64] = slice(None)) -> Sums:
        """Bad and total of the steps `low <= step < high`."""
        low, high = max(low, self.head - self.capacity), min(high, self.head)
        sums = np.zeros((2, self.counts[:, rows].shape[1]), np.int64)
        while low < high:
            column = low % self.capacity
            width = min(high - low, self.capacity - column)
            sums += self.counts[:, rows, column : column + width].sum(axis=2, dtype=np.int64)
            low += width
        return sums[0], sums[1]


class Tallies:
    """`hours` is how far back the hour grid reaches."""

    def __init__(self, hours: int) -> None:
        self.fine = Ring(GRID_S, FINE_S // GRID_S + 1)
        self.minutes = Ring(MINUTE_S, MINUTES_S // MINUTE_S + 60)
        self.hours = Ring(HOUR_S, hours + 2)
        self.rings = (self.fine, self.minutes, self.hours)
        self.rows: dict[Series, int] = {}

    def keep(self, definitions: Iterable[str]) -> None:
        """Forget the series of all other definitions."""
        known = frozenset(definitions)
        kept = [(series, row) for series, row in self.rows.items() if series[0] in known]
        if len(kept) < len(self.rows):
            self._resize([row for _, row in kept], len(kept))
            self.rows = {series: number for number, (series, _) in enumerate(kept)}

    def reach(self, hours: int) -> None:
        """Let the hour grid reach further back."""
        if hours + 2 > self.hours.capacity:
            longer = Ring(HOUR_S, hours + 2)
            longer.resize([], len(self.rows))
            longer.head = self.hours.head
            steps = np.arange(max(0, self.hours.head - self.hours.capacity), self.hours.head)
            longer.counts[:, :, steps % longer.capacity] = self.hours.counts[:, :, steps % self.hours.capacity]
            self.hours = longer
            self.rings = (self.fine, self.minutes, self.hours)

    def advance(self, now_s: int) -> None:
        for ring in self.rings:
            ring.advance(now_s // ring.step_s + 1)

    def put(self, blocks: Mapping[Series, Block], definitions: Iterable[str], from_s: int, to_s: int) -> None:
        """Replace the counts between two whole minutes of all series of `definitions`. Those not in `blocks` had no events."""
        if new := [series for series in blocks if series not in self.rows]:
            self._resize(list(range(len(self.rows))), len(self.rows) + len(new))
            for series in new:
                self.rows[series] = len(self.rows)
        known = frozenset(definitions)
        chosen = [(row, blocks.get(series)) for series, row in self.rows.items() if series[0] in known]
        if not chosen:
            return
        rows = np.array([row for row, _ in chosen], np.int64)
        counts = np.zeros((2, len(chosen), (to_s - from_s) // GRID_S), np.int32)
        for at, (_, block) in enumerate(chosen):
            if block is not None:
                counts[:, at] = block
        self.fine.put(rows, from_s // GRID_S, counts)
        by_minute = counts.reshape(2, len(rows), -1, MINUTE_S // GRID_S).sum(axis=3, dtype=np.int32)
        self.minutes.put(rows, from_s // MINUTE_S, by_minute)
        self._hours(rows, from_s, by_minute)

    def put_hours(self, series: Series, hour: int, bad: int, total: int) -> None:
        """Set an hour that was counted before."""
        if series not in self.rows:
            self._resize(list(range(len(self.rows))), len(self.rows) + 1)
            self.rows[series] = len(self.rows)
        self.hours.put(np.array([self.rows[series]]), hour, np.array([[[bad]], [[total]]], np.int32))

    def window(self, length_s: int, at_s: int) -> Sums:
        """The counts of the last `length_s` at `at_s`, of every row."""
        ring = next(ring for ring in self.rings if ring.step_s == grid_s(length_s))
        end = at_s // ring.step_s + 1
        return ring.sums(end - -(-length_s // ring.step_s), end)

    def since(self, from_s: int, at_s: int) -> Sums:
        """The counts of the whole hours from `from_s` to `at_s`, of every row. A part of an hour before them is not included."""
        return self.hours.sums(-(-from_s // HOUR_S), at_s // HOUR_S + 1)

    def hour(self, hour: int, row: int) -> tuple[int, int]:
        """Bad and total of one hour since the epoch."""
        bad, total = self.hours.sums(hour, hour + 1, slice(row, row + 1))
        return int(bad[0]), int(total[0])

    def forget_empty(self, name: str) -> None:
        """Forget the series of a definition that have no events left."""
        empty = {
            row
            for series, row in self.rows.items()
            if series[0] == name and not any(ring.counts[1, row].any() for ring in self.rings)
        }
        if empty:
            kept = [(series, row) for series, row in self.rows.items() if row not in empty]
            self._resize([row for _, row in kept], len(kept))
            self.rows = {series: number for number, (series, _) in enumerate(kept)}

    @property
    def nbytes(self) -> int:
        return sum(ring.counts.nbytes for ring in self.rings)

    def _hours(self, rows: npt.NDArray[np.int64], from_s: int, by_minute: npt.NDArray[np.int32]) -> None:
        """Set the hours of the new counts: whole hours from these, a part of one from its minutes."""
        to_s = from_s + by_minute.shape[2] * MINUTE_S
        if from_s % HOUR_S == 0 and to_s % HOUR_S == 0:
            whole = by_minute.reshape(2, len(rows), -1, HOUR_S // MINUTE_S).sum(axis=3, dtype=np.int32)
            self.hours.put(rows, from_s // HOUR_S, whole)
            return
        for hour in range(from_s // HOUR_S, -(-to_s // HOUR_S)):
            sums = self.minutes.sums(hour * 60, (hour + 1) * 60, rows)
            self.hours.put(rows, hour, np.stack(sums)[:, :, None].astype(np.int32))

    def _resize(self, kept: Sequence[int], rows: int) -> None:
        for ring in self.rings:
            ring.resize(kept, rows)


class WindowSums:
    """Counts of single series at one time. Each window is summed once, for all series."""

    def __init__(self, tallies: Tallies, now_s: int) -> None:
        self.now_s = now_s
        self._tallies = tallies
        self._windows: dict[int, Sums] = {}
        self._since: dict[int, Sums] = {}
        self._splits: dict[str, list[Split]] = {}
        for name, split in tallies.rows:
            self._splits.setdefault(name, []).append(split)

    def splits(self, definition: str) -> Sequence[Split]:
        return self._splits.get(definition, ())

    def window(self, series: Series, length_s: int) -> Counts:
        if length_s not in self._windows:
            self._windows[length_s] = self._tallies.window(length_s, self.now_s)
        return self._of(series, self._windows[length_s])

    def since(self, series: Series, from_s: int) -> Counts:
        """As `Tallies.since`."""
        if from_s not in self._since:
            self._since[from_s] = self._tallies.since(from_s, self.now_s)
        return self._of(series, self._since[from_s])

    def hour(self, series: Series, hour: int) -> Counts:
        row = self._tallies.rows.get(series)
        return Counts() if row is None else Counts(*self._tallies.hour(hour, row))

    def _of(self, series: Series, sums: Sums) -> Counts:
        """No events where the series is not known."""
        row = self._tallies.rows.get(series)
        return Counts() if row is None else Counts(int(sums[0][row]), int(sums[1][row]))
