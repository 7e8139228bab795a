"""Sorts pieces of the ledger that are over, so that long pages need not (ranked.py). What is written later has it sorted again."""

import time
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pyarrow as pa

from controlplane.telemetry.core.query_types import Window

from ..read.presorted import PIECE_NS, Measure, RankedReader, measures_of
from ..read.rank_bins import Counts, Values

SETTLED_NS = 120 * 10**9
"""For so long after its end a piece is left to late spans."""
AT_ONCE = 250_000
"""Requests that are sorted together, in some 80 MB: of a piece of more, slices are sorted that lie beside each other."""
KEPT_NS = 3600 * 10**9
"""For so long a build that no longer counts is left to questions that have begun."""

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


class Sorter(RankedReader):
    """Raises StoreUnavailableError or StoreError; the next call starts again. Two processes at once do the work twice, harmlessly."""

    def sort_pieces(self, now_ns: int, most_s: float) -> int:
        """Sort what is due, the newest first, at least one piece and until `most_s` have passed; how many it was."""
        stop_s = time.monotonic() + most_s
        due = self.rows(
            "SELECT piece, sum(touches) AS found FROM touched LEFT JOIN (SELECT piece, touches AS known FROM ranked FINAL) AS ranked"
            f" USING piece WHERE piece < {(now_ns - SETTLED_NS) // PIECE_NS} GROUP BY piece HAVING found != any(known)"
            " ORDER BY piece DESC"
        )
        done = 0
        for piece, touches in due:
            if done and time.monotonic() >= stop_s:
                break
            self._sort(piece, touches)
            done += 1
        if done:
            self._forget()
        return done

    def _sort(self, piece: int, touches: int) -> None:
        """`touches` were counted before the requests are read: what comes in between makes this build void."""
        build = time.time_ns()
        slices = -(-touches // AT_ONCE)
        edges = [piece * PIECE_NS + PIECE_NS * number // slices for number in range(slices + 1)]
        counts: dict[Measure, list[Counts]] = {}
        newest_ns = 0
        for window in (Window(*ends) for ends in pairwise(edges)):
            read = self._between([window])
            found = measures_of(read, np.zeros(len(read), np.int64), by_model=True)
            for measure, values in found.items():
                counts.setdefault(measure, []).append(Counts.of(values))
            self.insert_arrow("ranks", _rows(piece, build, found))
            newest_ns = max([newest_ns, *read["end_ns"].to_pylist()])
        merged = {measure: Counts.merged(several) for measure, several in counts.items()}
        row = {
            "piece": piece,
            "build": build,
            "touches": touches,
            "newest_ns": newest_ns,
            "measures": [name for name, _ in merged],
            "ofs": [of for _, of in merged],
            "widths": [len(one.cells) for one in merged.values()],
            "bins": [bin_ for one in merged.values() for bin_ in one.cells],
            "counts": [count for one in merged.values() for count in one.counts],
            "sums": [part for one in merged.values() if one.sums is not None for part in one.sums.ravel()],
        }
        self.insert_arrow("ranked", pa.table({name: [value] for name, value in row.items()}, schema=_RANKED))

    def _forget(self) -> None:
        """Drop builds that no longer count, or were never finished."""
        old = f"build < {time.time_ns() - KEPT_NS} AND build NOT IN (SELECT build FROM ranked FINAL)"
        [(count,)] = self.rows(f"SELECT count() FROM ranks WHERE {old}")
        if count:
            self.command(f"DELETE FROM ranks WHERE {old}")


def _rows(piece: int, build: int, found: Mapping[Measure, Values]) -> pa.Table:
    tables = [_of_measure(piece, build, *measure, values) for measure, values in found.items()]
    return pa.concat_tables([_RANKS.empty_table(), *tables])


def _of_measure(piece: int, build: int, name: str, of: str, values: Values) -> pa.Table:
    """A row for each bin whose values are not in its number."""
    held = values.written().in_order()
    cells, first = np.unique(held.cells, return_index=True)
    ends = np.append(first, len(held.values))
    parts = [] if held.parts is None else [held.parts[start:end].T.ravel() for start, end in pairwise(ends.tolist())]
    width = 0 if held.parts is None else held.parts.shape[1]
    return pa.table(
        {
            "piece": np.full(len(cells), piece),
            "build": np.full(len(cells), build),
            "measure": [name] * len(cells),
            "of": [of] * len(cells),
            "bin": cells,
            "values": pa.ListArray.from_arrays(pa.array(ends, pa.int32()), held.values),
            "parts": pa.ListArray.from_arrays(
                pa.array(ends * width, pa.int32()), np.concatenate([np.zeros(0, np.uint64), *parts])
            ),
        },
        schema=_RANKS,
    )
