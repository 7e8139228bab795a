"""Reads rollups, out of which long pages are answered: how requests were spread, by step of time or by the value of a dimension.

A page of more than LONG_NS without other filters than rollups have is made of the coarsest rollups that fit in it, and of the requests of
what they leave: the ends of its window, what is not settled yet, and stretches that rows were written to since their build.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from controlplane.telemetry.core.query_types import Dimension, Filters, Window

from ..client import Connection
from ..write.arrow_columns import PARTS
from .histograms import BAND_SHIFT, BANDS, BINS, F64, I64, bins_of, summed
from .where import Where, column, where

LONG_NS = 6 * 3600 * 10**9
"""Longer windows are answered out of rollups."""
STEPS_S = (43_200, 3600, 1800, 300)
"""Steps of rollups that pages read, the coarsest first."""
KEPT_H = {60: 6, 300: 48, 1800: 48, 3600: 240}
"""Hours for which rows are kept, by step; longer steps, and slices of 3600 s, are kept for the rollups' retention."""
RELIED_S = {step_s: kept_h * 3600 * 3 // 4 for step_s, kept_h in KEPT_H.items()}
"""The age up to which rows are read, s. The store drops older ones when it comes to it, and their builds stay listed."""
SLOT_S = STEPS_S[-1]
SLOT_NS = SLOT_S * 10**9
MOST_REST = 0.25
"""Requests alone are read if more than this share of a window's is in no rollup that is up to date."""
MOST_RANGES = 20
MOST_KEPT, MOST_KEPT_BYTES = 12, 8 * 2**20
"""How many answers of the store a process keeps, and how large they may be: some 3 MB are a day without filters."""
MOST_VALUES = 60
"""Values of a dimension that are told apart; with more, requests are read."""

DIMENSIONS: frozenset[str] = frozenset({"model", "variant", "pool", "tier", "region", "cache", "status"})
"""Filters and groups that rollups have."""
_FAILED = ("error", "rejected")
_ARRAYS = ("e2e_bins", "e2e_counts", "ttft_bins", "ttft_counts", "band_bins", *(f"band_{part}" for part in PARTS))
_PART_ARRAYS = ("part_bins", "part_counts")


def kept_step_s(window: Window, filters: Filters, now_s: int, retention_days: int) -> int:
    """The shortest step, s, by which a window's requests are still kept; 1 where the requests are, or rollups lack a filter.

    Requests are kept for `retention_days`. Of long windows that begin earlier, hours remain, and of all dimensions, which
    several filters need, half days.
    """
    age_s = now_s - window.from_ns // 10**9
    chosen = {name for name, values in filters.items() if values}
    if (
        window.to_ns - window.from_ns <= LONG_NS
        or age_s <= retention_days * 86_400
        or not DIMENSIONS.issuperset(chosen)
    ):
        return 1
    return 3600 if _sliced(chosen) or age_s <= RELIED_S[3600] else 43_200


def _sliced(names: Iterable[str]) -> bool:
    """Whether slices have requests by these dimensions: by one of them, and by status."""
    return len(set(names) - {"status"}) <= 1


@dataclass(frozen=True, slots=True)
class Rolled:
    """How the requests of a window were spread. The first axis of each array are `keys`: starts of steps in ns, or values of a dimension.

    Histograms are of answered requests. `parts` (keys x parts x BINS) is of all keys together, with one first entry, if they are steps.
    """

    keys: Sequence[int | str]
    requests: I64
    errors: I64
    cancelled: I64
    unmeasured: I64
    newest_ns: I64  # end of the newest request
    e2e: F64  # keys x BINS
    bands: F64  # keys x BANDS x parts: ns
    parts: F64
    ttft: Mapping[str, F64]  # by definition: keys x BINS


RolledOrUnread = Rolled | Literal["unread"] | None
"""What `rolled` returned, if it was called before."""


@dataclass(frozen=True, slots=True)
class _Cover:
    """The rollups that are up to date within a window, and the windows that they leave."""

    builds: Mapping[int, tuple[int, int, Sequence[int]]]  # by step: first start, end of the last and build numbers
    rest: Sequence[Window]


class RollupReader(Connection):
    """Reads rollups, and the requests between them."""

    def rolled(
        self, window: Window, filters: Filters | None = None, step_ns: int = 0, by: Dimension | None = None
    ) -> Rolled | None:
        """The window's requests by steps of `step_ns` (0: as one), or by the values of a dimension.

        None where requests have to be read: the window is short, rollups lack a filter or the dimension, a step is no multiple of
        theirs, too little of the window is in up-to-date rollups, or nothing was requested.
        """
        chosen_filters = {name: values for name, values in (filters or {}).items() if values}
        condition = where(window, filters)
        if window.to_ns - window.from_ns <= LONG_NS or not DIMENSIONS.issuperset(
            {*chosen_filters, *([by] if by else [])}
        ):
            return None
        needed = {name for name in (*chosen_filters, *([by] if by else [])) if name != "status"}
        sliced = _sliced(needed) and by != "status"
        cover = self._cover(window, step_ns, sliced=sliced)
        if cover is None:
            return None
        fresh = self.beside(self._fresh, cover.rest, condition, by)
        of = (column(next(iter(needed))) if needed else "") if sliced else None
        parts = [self._stored(cover, chosen_filters, by, of), fresh.result()]
        return _merged([part for part in parts if part.num_rows], step_ns, by)

    def _cover(self, window: Window, step_ns: int, *, sliced: bool) -> _Cover | None:
        """Of the coarsest rollups first. None where reading requests is better."""
        now_s = int(time.time())
        first, end = window.from_ns // SLOT_NS, -(-window.to_ns // SLOT_NS)
        built = self.beside(
            self.arrow,
            "SELECT step_s, start_s, build, touches FROM rollup_builds FINAL WHERE kind = 'rollups'"
            f" AND step_s IN {STEPS_S} AND start_s >= {first * SLOT_S} AND start_s < {end * SLOT_S}",
        )
        touched = self.arrow(
            "SELECT stretch, sum(touches) AS touches FROM rollup_touched"
            f" WHERE stretch >= {first} AND stretch < {end} GROUP BY stretch"
        )
        touches = np.zeros(end - first, np.int64)
        touches[touched["stretch"].to_numpy().astype(np.int64) - first] = touched["touches"].to_numpy()
        written = np.append(0, np.cumsum(touches))
        whole = np.ones(end - first, np.bool_)  # slots that lie in the window and are in no rollup yet
        whole[:1], whole[-1:] = window.from_ns % SLOT_NS == 0, window.to_ns % SLOT_NS == 0
        steps, starts, builds, counted = (
            built.result()[name].to_numpy().astype(np.int64) for name in ("step_s", "start_s", "build", "touches")
        )
        chosen = {}
        covered = np.zeros(end - first, np.bool_)
        for step_s in STEPS_S:
            if step_ns % (step_s * 10**9):
                continue
            slots = step_s // SLOT_S
            at = np.flatnonzero((steps == step_s) & (starts // SLOT_S + slots <= end))
            place = starts[at] // SLOT_S - first
            usable = whole[place] & whole[place + slots - 1] & ~covered[place]
            usable &= written[place + slots] - written[place] == counted[at]
            if step_s in RELIED_S and not (sliced and step_s >= 3600):
                usable &= starts[at] >= now_s - RELIED_S[step_s]
            at, place = at[usable], place[usable]
            if len(at):
                covered[(place[:, None] + np.arange(slots)).ravel()] = True
                chosen[step_s] = int(starts[at].min()), int(starts[at].max()) + step_s, builds[at].tolist()
        left = np.flatnonzero(~covered & (touches > 0))
        if not chosen or touches[left].sum() > MOST_REST * written[-1]:
            return None
        edges = np.flatnonzero(np.diff(left, prepend=-2) > 1)
        runs = [left[run] for run in map(slice, edges, [*edges[1:], len(left)])]
        rest = [
            Window(max((first + int(run[0])) * SLOT_NS, window.from_ns), min((first + int(run[-1]) + 1) * SLOT_NS, window.to_ns))
            for run in runs
        ]  # fmt: skip
        return _Cover(chosen, rest) if len(rest) <= MOST_RANGES else None

    def _stored(self, cover: _Cover, filters: Filters, by: Dimension | None, of: str | None) -> pa.Table:
        """The rows of these builds: the slices by dimension `of` ('' is by none), or, if that is None, those of all dimensions.

        A build never changes, so what was read last is kept for a page that is loaded again.
        """
        key = repr((sorted(filters.items()), by, cover.builds))
        rows = self._last_read.pop(key, None)
        if rows is None:
            rows = self._read(cover, filters, by, of)
        if rows.nbytes <= MOST_KEPT_BYTES:
            self._last_read[key] = rows
            for old in list(self._last_read)[:-MOST_KEPT]:
                self._last_read.pop(old, None)
        return rows

    @cached_property
    def _last_read(self) -> dict[str, pa.Table]:
        return {}

    def _read(self, cover: _Cover, filters: Filters, by: Dimension | None, of: str | None) -> pa.Table:
        condition = Where()
        sliced = of is not None
        if sliced:
            condition.add("of = {of:String}", of=of)
        for name, values in filters.items():
            held_in = "value" if sliced and name != "status" else column(name)
            condition.add(f"{held_in} IN {{in_{name}:Array(String)}}", **{f"in_{name}": list(values)})
        among = " OR ".join(
            f"(step_s = {step_s} AND start_s >= {first_s} AND start_s < {end_s} AND build IN ({', '.join(map(str, builds))}))"
            for step_s, (first_s, end_s, builds) in cover.builds.items()
        )
        condition.add(f"({among})")
        value = "toString(value)" if sliced else f"toString({column(by)})" if by else "''"
        arrays = ", ".join([*_ARRAYS, *([] if by else _PART_ARRAYS)])
        return self.arrow(
            f"SELECT start_s, {value} AS of_value, toString(status) AS of_status, toString(ttft_definition) AS definition,"
            f" requests, unmeasured, newest_ns, {arrays} FROM {'rollup_slices' if sliced else 'rollups'} WHERE {condition.sql}",
            condition.parameters,
        )

    def _fresh(self, windows: Sequence[Window], condition: Where, by: Dimension | None) -> pa.Table:
        """The requests of these windows, in the same columns, a row each."""
        among = " OR ".join(
            f"entry_start_ns >= {window.from_ns} AND entry_start_ns < {window.to_ns}" for window in windows
        )
        value = f"toString({column(by)})" if by else "''"
        rows = self.arrow(
            f"SELECT toUInt32(intDiv(entry_start_ns, 1000000000)) AS start_s, {value} AS of_value, toString(status) AS of_status,"
            " toString(ttft_definition) AS definition, unmeasured, end_ns, e2e_ns, ifNull(ttft_ns, 0) AS ttft,"
            f" ttft_ns IS NOT NULL AS has_ttft, {', '.join(PARTS.values())} FROM requests FINAL WHERE {condition.sql} AND ({among or '0'})",
            condition.parameters,
        )
        return _as_rollups(rows, parts=by is None)


def _as_rollups(rows: pa.Table, *, parts: bool) -> pa.Table:
    """Requests as rollups of one request each."""
    answered = rows["of_status"].to_numpy() == "ok"
    e2e = bins_of(rows["e2e_ns"].to_numpy())
    timed = answered & rows["has_ttft"].to_numpy().astype(np.bool_)
    of_parts = {part: rows[name].to_numpy() for part, name in PARTS.items()}
    columns: dict[str, pa.Array | pa.ChunkedArray] = {
        name: rows[name] for name in ("start_s", "of_value", "of_status", "definition")
    }
    columns["requests"] = pa.array(np.ones(len(rows), np.uint64))
    columns["unmeasured"] = pa.array((answered & rows["unmeasured"].to_numpy().astype(np.bool_)).astype(np.uint64))
    columns["newest_ns"] = rows["end_ns"]
    columns["e2e_bins"], columns["e2e_counts"] = _single(answered, e2e), _single(answered, np.ones(len(rows), np.int64))
    columns["ttft_bins"] = _single(timed, bins_of(rows["ttft"].to_numpy()))
    columns["ttft_counts"] = _single(timed, np.ones(len(rows), np.int64))
    columns["band_bins"] = _single(answered, e2e >> BAND_SHIFT)
    for part, spent in of_parts.items():
        columns[f"band_{part}"] = _single(answered, spent.astype(np.float64) / 1e3)
    if parts:
        bins = np.stack([bins_of(spent) + number * BINS for number, spent in enumerate(of_parts.values())], axis=1)
        columns["part_bins"] = _single(answered, bins)
        columns["part_counts"] = _single(answered, np.ones(bins.shape, np.int64))
    return pa.table(columns)


def _single(chosen: npt.NDArray[np.bool_], values: npt.NDArray[np.generic]) -> pa.ListArray:
    """A list for each request, of its values if it is chosen, else an empty one."""
    width = values[0].size if len(values) else 1
    ends = np.append(0, np.cumsum(chosen * width)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(values[chosen].ravel()))


def _merged(tables: Sequence[pa.Table], step_ns: int, by: Dimension | None) -> Rolled | None:
    if not tables:
        return None
    column_of = {name: [table[name].combine_chunks() for table in tables] for name in tables[0].column_names}

    def flat(name: str) -> npt.NDArray[np.generic]:
        return np.concatenate([chunk.to_numpy(zero_copy_only=False) for chunk in column_of[name]])

    keys: Sequence[int | str]
    if by:
        values, rows = np.unique(flat("of_value").astype(str), return_inverse=True)
        keys = values.tolist()
        if len(keys) > MOST_VALUES:
            return None
    else:
        steps = flat("start_s").astype(np.int64) * 10**9
        starts, rows = np.unique(steps // step_ns * step_ns if step_ns else np.zeros_like(steps), return_inverse=True)
        keys = starts.tolist()
    count, statuses, definitions = flat("requests").astype(np.float64), flat("of_status"), flat("definition")
    edges = np.append(0, np.cumsum([table.num_rows for table in tables]))
    own = [rows[first:last] for first, last in pairwise(edges.tolist())]

    def counted(chosen: npt.NDArray[np.bool_], weights: npt.NDArray[np.float64] = count) -> I64:
        counts: I64 = np.bincount(rows[chosen], weights[chosen], minlength=len(keys)).astype(np.int64)
        return counts

    def histogram(bins: str, weights: str, width: int, *, one_key: bool = False) -> F64:
        sums = [
            summed(np.zeros_like(mine) if one_key else mine, 1 if one_key else len(keys), lists, counts, width)
            for mine, lists, counts in zip(own, column_of[bins], column_of[weights], strict=True)
        ]
        total: F64 = np.sum(sums, axis=0)
        return total

    newest = np.zeros(len(keys), np.int64)
    np.maximum.at(newest, rows, flat("newest_ns").astype(np.int64))
    every = np.ones(len(rows), np.bool_)
    ttft = {}
    for definition in sorted(set(definitions.tolist())):
        of = [np.flatnonzero(definitions[first:last] == definition) for first, last in pairwise(edges.tolist())]
        total: F64 = np.sum(
            [
                summed(mine[some], len(keys), bins.take(pa.array(some)), counts.take(pa.array(some)), BINS)
                for mine, some, bins, counts in zip(own, of, column_of["ttft_bins"], column_of["ttft_counts"], strict=True)
            ],
            axis=0,
        )  # fmt: skip
        if total.any():
            ttft[str(definition)] = total
    return Rolled(
        keys=keys,
        requests=counted(every),
        errors=counted(np.isin(statuses, _FAILED)),
        cancelled=counted(statuses == "cancelled"),
        unmeasured=counted(every, flat("unmeasured").astype(np.float64)),
        newest_ns=newest,
        e2e=histogram("e2e_bins", "e2e_counts", BINS),
        bands=1e3 * np.stack([histogram("band_bins", f"band_{part}", BANDS) for part in PARTS], axis=2),
        parts=np.zeros((1, len(PARTS), BINS))
        if by
        else histogram("part_bins", "part_counts", len(PARTS) * BINS, one_key=True).reshape(1, len(PARTS), BINS),
        ttft=ttft,
    )
