"""Stores counted hours, so that a restart need not count them again and budgets reach further back than the ledger."""

import json
import time
from collections.abc import Iterable, Sequence

import pyarrow as pa

from controlplane.slo.core.tallies import Tallies
from controlplane.telemetry.store import Store
from controlplane.telemetry.store.read.objectives import TALLY_SCHEMA


class KeptHours:
    """Remembers what this process stored. Not thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._written: dict[str, dict[int, int]] = {}  # a hash of what was written, by definition and hour
        self.oldest: dict[str, int] = {}  # the oldest hour with events that is stored, by definition

    def load(self, tallies: Tallies, names: Sequence[str], from_hour: int, to_hour: int) -> dict[str, frozenset[int]]:
        """Load stored hours into the tallies. Returns them by definition. Raises StoreUnavailableError."""
        if not names:
            return {}
        table = self._store.objectives.tallies(list(names), from_hour, to_hour)
        loaded: dict[str, set[int]] = {}
        columns = (table[name].to_pylist() for name in ("definition", "hour", "splits", "bad", "total"))
        for name, hour, splits, bad, total in zip(*columns, strict=True):
            loaded.setdefault(name, set()).add(hour)
            if any(total):
                self.oldest[name] = min(hour, self.oldest.get(name, hour))
            for split, bad_, total_ in zip(splits, bad, total, strict=True):
                tallies.put_hours((name, tuple(json.loads(split))), hour, bad_, total_)
        return {name: frozenset(hours) for name, hours in loaded.items()}

    def keep(self, tallies: Tallies, names: Iterable[str], hour: int) -> None:
        """Store an hour that is over, if its counts changed.

        Raises StoreUnavailableError and StoreError; the hour then counts as not stored.
        """
        counts: dict[str, list[tuple[str, int, int]]] = {name: [] for name in names}
        bad, total = tallies.hours.sums(hour, hour + 1)
        for (name, split), row in tallies.rows.items():
            if name in counts and (total[row] or not split):
                counts[name].append((json.dumps(split), int(bad[row]), int(total[row])))
        for name, rows in counts.items():
            if any(events for _, _, events in rows):
                self.oldest[name] = min(hour, self.oldest.get(name, hour))
        hashes = {name: hash(tuple(rows)) for name, rows in counts.items()}
        changed = [name for name in counts if self._written.get(name, {}).get(hour) != hashes[name]]
        if not changed:
            return
        columns: dict[str, list[object]] = {name: [] for name in TALLY_SCHEMA.names}
        for name in changed:
            splits, bads, totals = zip(*counts[name], strict=True) if counts[name] else ((), (), ())
            for column, value in zip(columns.values(), (name, hour, time.time_ns(), splits, bads, totals), strict=True):
                column.append(value)
        self._store.objectives.insert_tallies(pa.table(columns, schema=TALLY_SCHEMA))
        for name in changed:
            hours = self._written.setdefault(name, {})
            hours[hour] = hashes[name]
            if len(hours) > 2 * tallies.hours.capacity:  # hours that left the tallies are not counted again
                oldest = tallies.hours.head - tallies.hours.capacity
                self._written[name] = {at: digest for at, digest in hours.items() if at >= oldest}

    def forget(self, names: Iterable[str]) -> None:
        """Forget all other definitions."""
        known = frozenset(names)
        self._written = {name: hours for name, hours in self._written.items() if name in known}
