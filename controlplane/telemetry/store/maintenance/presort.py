"""Sorts half hours of the ledger that are over, for long pages (read/presorted.py). Rows written later cause another sort."""

import time
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pyarrow as pa

from controlplane.telemetry.core.query_types import Window

from ..read.presorted import HALF_HOUR_NS, Measure, PresortedReader, measures_of
from ..read.rank_bins import Counts, Values

SETTLED_NS = 120 * 10**9
"""How long after its end a half hour is sorted: late spans arrive before."""
AT_ONCE = 250_000
"""Requests that are sorted together, in some 80 MB. A half hour with more is sorted in slices of entry time."""
KEPT_NS = 3600 * 10**9
"""How long a replaced build is kept for queries that read it."""

_RANKED = pa.schema(
    [
        *((name, pa.uint64()) for name in ("piece", "build", "touches", "newest_ns")),
        ("measures", pa.list_(pa.string())),
        ("ofs", pa.list_(pa.string())),
        ("widths", pa.list_(pa.uint16())),
        ("bins", pa.list_(pa.uint16())),
        ("counts", pa.list_(pa.uint32())),
        ("sums", pa.list_(pa.uint64())),
    ]
)
_RANKS = pa.schema(
    [
        ("piece", pa.uint32()),
        ("build", pa.uint64()),
        ("measure", pa.string()),
        ("of", pa.string()),
        ("bin", pa.uint16()),
        ("values", pa.list_(pa.uint64())),
        ("parts", pa.list_(pa.uint64())),
    ]
)


class Presorter(PresortedReader):
    """Raises StoreUnavailableError or StoreError; the next call starts again. Two processes at once do the work twice, harmlessly."""

    def presort(self, now_ns: int, limit_s: float) -> int:
        """Sort the half hours that are due, the newest first: at least one, and for up to `limit_s` seconds. Returns how many."""
        stop_s = time.monotonic() + limit_s
        due = self.rows(
            "SELECT piece, sum(touches) AS written FROM touched LEFT JOIN (SELECT piece, touches AS known FROM ranked FINAL) AS ranked"
            f" USING piece WHERE piece < {(now_ns - SETTLED_NS) // HALF_HOUR_NS} GROUP BY piece HAVING written != any(known)"
            " ORDER BY piece DESC"
        )
        done = 0
        for half_hour, touches in due:
            if done and time.monotonic() >= stop_s:
                break
            self._sort(half_hour, touches)
            done += 1
        if done:
            self._drop_old_builds()
        return done

    def _sort(self, half_hour: int, touches: int) -> None:
        """`touches` were counted before the requests are read, so rows that arrive in between make this build out of date."""
        build = time.time_ns()
        slices = -(-touches // AT_ONCE)
        edges = [half_hour * HALF_HOUR_NS + HALF_HOUR_NS * number // slices for number in range(slices + 1)]
        counts: dict[Measure, list[Counts]] = {}
        newest_ns = 0
        for window in (Window(*ends) for ends in pairwise(edges)):
            read = self._requests_in([window])
            measures = measures_of(read, np.zeros(len(read), np.int64), by_model=True)
            for measure, values in measures.items():
                counts.setdefault(measure, []).append(Counts.of(values))
            self.insert_arrow("ranks", _rows(half_hour, build, measures))
            newest_ns = max([newest_ns, *read["end_ns"].to_pylist()])
        merged = {measure: Counts.merged(several) for measure, several in counts.items()}
        row = {
            "piece": half_hour,
            "build": build,
            "touches": touches,
            "newest_ns": newest_ns,
            "measures": [name for name, _ in merged],
            "ofs": [of for _, of in merged],
            "widths": [len(counts.cells) for counts in merged.values()],
            "bins": [bin_ for counts in merged.values() for bin_ in counts.cells],
            "counts": [count for counts in merged.values() for count in counts.counts],
            "sums": [part for counts in merged.values() if counts.sums is not None for part in counts.sums.ravel()],
        }
        self.insert_arrow("ranked", pa.table({name: [value] for name, value in row.items()}, schema=_RANKED))

    def _drop_old_builds(self) -> None:
        """Drop builds that were replaced or never finished."""
        old = f"build < {time.time_ns() - KEPT_NS} AND build NOT IN (SELECT build FROM ranked FINAL)"
        [(count,)] = self.rows(f"SELECT count() FROM ranks WHERE {old}")
        if count:
            self.command(f"DELETE FROM ranks WHERE {old}")


def _rows(half_hour: int, build: int, measures: Mapping[Measure, Values]) -> pa.Table:
    tables = [_of_measure(half_hour, build, *measure, values) for measure, values in measures.items()]
    return pa.concat_tables([_RANKS.empty_table(), *tables])


def _of_measure(half_hour: int, build: int, name: str, of: str, values: Values) -> pa.Table:
    """A row for each bin that has stored values (see `Values.stored`)."""
    stored = values.stored().in_order()
    cells, first = np.unique(stored.cells, return_index=True)
    ends = np.append(first, len(stored.values))
    parts = (
        [] if stored.parts is None else [stored.parts[start:end].T.ravel() for start, end in pairwise(ends.tolist())]
    )
    width = 0 if stored.parts is None else stored.parts.shape[1]
    return pa.table(
        {
            "piece": np.full(len(cells), half_hour),
            "build": np.full(len(cells), build),
            "measure": [name] * len(cells),
            "of": [of] * len(cells),
            "bin": cells,
            "values": pa.ListArray.from_arrays(pa.array(ends, pa.int32()), stored.values),
            "parts": pa.ListArray.from_arrays(
                pa.array(ends * width, pa.int32()), np.concatenate([np.zeros(0, np.uint64), *parts])
            ),
        },
        schema=_RANKS,
    )
