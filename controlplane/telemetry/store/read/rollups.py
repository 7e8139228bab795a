"""Reads rollups, out of which long pages are answered: how requests were spread, by step of time or by the value of a dimension.

A page of more than LONG_NS without other filters than rollups have is made of the coarsest rollups that fit in it, and of the requests of
what they leave: the ends of its window, what is not settled yet, and stretches that rows were written to since their build.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from controlplane.telemetry.core.query_types import Dimension, Filters, Window, excluded, filtered_by

from ..tiers import HOUR_S, RELIED_S, STEPS_S
from ..write.arrow_columns import PARTS
from .histograms import BAND_SHIFT, BINS, F64, I64, Histograms, bins_of
from .retained import DIMENSIONS, LONG_NS, RetainedReader, is_sliced
from .where import ANSWERED, CANCELLED, FAILED, UNMEASURED, Where, column, where

SLOT_S = STEPS_S[-1]
SLOT_NS = SLOT_S * 10**9
MAX_REST, MAX_RANGES, MAX_FRESH = 0.25, 20, 200_000
"""Requests alone are read if more than this share of a window's is in no rollup that is up to date, or lies in more ranges than this; or so
many, where they are not kept of all the window."""
MAX_KEPT, MAX_KEPT_BYTES = 12, 8 * 2**20
"""How many answers of the store a process keeps, and how large they may be: some 3 MB are a day without filters."""
MAX_VALUES = 60
"""Values of a dimension that are told apart; with more, requests are read."""

_ARRAYS = ("e2e_bins", "e2e_counts", "ttft_bins", "ttft_counts", "band_bins", *(f"band_{part}" for part in PARTS))
_PART_ARRAYS = ("part_bins", "part_counts")


@dataclass(frozen=True, slots=True)
class Rolled:
    """How the requests of a window were spread. The first axis of most arrays are `keys`: starts of steps in ns, or values of a dimension.

    Histograms are of answered requests, and those by key have the bins in use, from `first_bin` on. `parts` are of all keys together, and
    zeros if those are values.
    """

    keys: Sequence[int | str]
    requests: I64
    errors: I64
    cancelled: I64
    unmeasured: I64
    newest_ns: I64  # end of the newest request
    first_bin: int
    e2e: F64  # keys x bins
    bands: F64  # keys x wide bins x parts: ns
    parts: F64  # parts x BINS
    ttft: Mapping[str, F64]  # by definition: keys x bins

    def e2e_histograms(self) -> Histograms:
        """By key."""
        return Histograms.of(self.e2e, self.first_bin)

    def whole(self) -> "Rolled":
        """The same as of a single key."""
        return Rolled(
            keys=("",),
            requests=self.requests.sum(keepdims=True),
            errors=self.errors.sum(keepdims=True),
            cancelled=self.cancelled.sum(keepdims=True),
            unmeasured=self.unmeasured.sum(keepdims=True),
            newest_ns=self.newest_ns.max(keepdims=True),
            first_bin=self.first_bin,
            e2e=self.e2e.sum(axis=0, keepdims=True),
            bands=self.bands.sum(axis=0, keepdims=True),
            parts=self.parts,
            ttft={name: counts.sum(axis=0, keepdims=True) for name, counts in self.ttft.items()},
        )


RolledOrUnread = Rolled | Literal["unread"] | None
"""What `rolled` returned, if it was called before."""


@dataclass(frozen=True, slots=True)
class _Cover:
    """The rollups that are up to date within a window, and the windows that they leave; the conditions of both as SQL."""

    builds: Mapping[int, tuple[int, int, Sequence[int]]]  # by step: first start, end of the last and build numbers
    rest: Sequence[Window]

    @property
    def of_builds(self) -> str:
        among = (
            f"(step_s = {step_s} AND start_s >= {first_s} AND start_s < {end_s} AND build IN ({', '.join(map(str, builds))}))"
            for step_s, (first_s, end_s, builds) in self.builds.items()
        )
        return f"({' OR '.join(among)})"

    @property
    def of_rest(self) -> str:
        if len(self.rest) > MAX_RANGES:
            slots = [at for each in self.rest for at in range(each.from_ns // SLOT_NS, -(-each.to_ns // SLOT_NS))]
            among = f"intDiv(entry_start_ns, {SLOT_NS}) IN ({', '.join(map(str, slots))})"
            return f"(entry_start_ns >= {self.rest[0].from_ns} AND entry_start_ns < {self.rest[-1].to_ns} AND {among})"
        ranges = (f"entry_start_ns >= {each.from_ns} AND entry_start_ns < {each.to_ns}" for each in self.rest)
        return f"({' OR '.join(ranges) or '0'})"


class RollupReader(RetainedReader):
    """Reads rollups, and the requests between them."""

    def rolled(
        self, window: Window, filters: Filters | None = None, step_ns: int = 0, by: Dimension | None = None
    ) -> Rolled | None:
        """The window's requests by steps of `step_ns` (0: as one), or by the values of a dimension.

        None where requests have to be read: the window is short and has requests, rollups lack a filter or the dimension, a step is no
        multiple of theirs, or too little of the window is in up-to-date rollups. Without keys where nothing was requested.
        """
        chosen_filters = {name: values for name, values in (filters or {}).items() if values}
        condition = where(window, filters)
        needed = {*filtered_by(chosen_filters), *([by] if by else [])}
        if not DIMENSIONS.issuperset(needed):
            return None
        needed -= {"status"}
        sliced = is_sliced(needed) and by != "status"
        cover = self._cover(window, step_ns, sliced=sliced)
        if cover is None:
            return None
        fresh = self._connection.submit_query(self._fresh, cover, condition, by)
        of = (column(next(iter(needed))) if needed else "") if sliced else None
        stored = _of_rollups(self._stored(cover, chosen_filters, by, of))
        return _merged(stored, _of_requests(fresh.result()), step_ns, by)

    def counts(self, window: Window, dimensions: Sequence[Dimension]) -> dict[Dimension, dict[str, int]] | None:
        """Requests by value of each of these dimensions, all of DIMENSIONS; None where they have to be read from requests."""
        cover = self._cover(window, 0, sliced=True)
        if cover is None:
            return None
        names = {"" if name == "status" else column(name): name for name in dimensions}
        counted = self.stored_by(Where([cover.of_rest]), dimensions)
        for of, value, number in self._connection.rows(
            "SELECT toString(dimension), toString(if(dimension = '', status, value)) AS chosen, sum(requests) FROM rollup_slices"
            f" WHERE dimension IN {{dimensions:Array(String)}} AND {cover.of_builds} GROUP BY dimension, chosen",
            {"dimensions": list(names)},
        ):
            counted[names[of]][value] = counted[names[of]].get(value, 0) + number
        return counted

    def _cover(self, window: Window, step_ns: int, *, sliced: bool) -> _Cover | None:
        """Of the coarsest rollups first. None where reading requests is better."""
        short, lost = window.to_ns - window.from_ns <= LONG_NS, self.kept().lost(window)
        if short and (window.from_ns % (HOUR_S * 10**9) or not lost):
            return None
        now_s = int(time.time())
        first, end = window.from_ns // SLOT_NS, -(-window.to_ns // SLOT_NS)
        built = self._connection.submit_query(
            self._connection.arrow,
            "SELECT step_s, start_s, build, touches FROM rollup_builds FINAL WHERE kind = 'rollups'"
            f" AND step_s IN {STEPS_S} AND start_s >= {first * SLOT_S} AND start_s < {end * SLOT_S}",
        )
        touched = self._connection.arrow(
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
        made_up = np.zeros(end - first, np.int64)  # slots of synthetic hours
        for start in starts[(steps == HOUR_S) & (counted == 0)].tolist():
            made_up[start // SLOT_S - first :][: HOUR_S // SLOT_S] = 1
        made_up_before = np.append(0, np.cumsum(made_up))
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
            if step_s in RELIED_S and not (sliced and step_s >= HOUR_S):
                usable &= starts[at] >= now_s - RELIED_S[step_s]
            if step_s > HOUR_S:  # of real requests alone: synthetic hours are read by themselves, while they are kept
                mixed = (counted[at] > 0) & (made_up_before[place + slots] > made_up_before[place])
                usable &= ~mixed | ~(sliced | (starts[at] >= now_s - RELIED_S[HOUR_S]))
            at, place = at[usable], place[usable]
            if len(at):
                covered[(place[:, None] + np.arange(slots)).ravel()] = True
                chosen[step_s] = int(starts[at].min()), int(starts[at].max()) + step_s, builds[at].tolist()
        left = np.flatnonzero(~covered & (touches > 0))
        if not chosen or touches[left].sum() > max(MAX_REST * written[-1], MAX_FRESH if lost else 0):
            return None
        edges = np.flatnonzero(np.diff(left, prepend=-2) > 1)
        runs = [left[run] for run in map(slice, edges, [*edges[1:], len(left)])]
        rest = [
            Window(max((first + int(run[0])) * SLOT_NS, window.from_ns), min((first + int(run[-1]) + 1) * SLOT_NS, window.to_ns))
            for run in runs
        ]  # fmt: skip
        return _Cover(chosen, rest) if lost or len(rest) <= MAX_RANGES else None

    def _stored(self, cover: _Cover, filters: Filters, by: Dimension | None, of: str | None) -> pa.Table:
        """The rows of these builds: the slices by dimension `of` ('' is by none), or, if that is None, those of all dimensions.

        A build never changes, so what was read last is kept for a page that is loaded again.
        """
        key = repr((sorted(filters.items()), by, cover.builds))
        rows = self._last_read.pop(key, None)
        if rows is None:
            rows = self._read(cover, filters, by, of)
        if rows.nbytes <= MAX_KEPT_BYTES:
            self._last_read[key] = rows
            for old in list(self._last_read)[:-MAX_KEPT]:
                self._last_read.pop(old, None)
        return rows

    @cached_property
    def _last_read(self) -> dict[str, pa.Table]:
        return {}

    def _read(self, cover: _Cover, filters: Filters, by: Dimension | None, of: str | None) -> pa.Table:
        condition = Where()
        sliced = of is not None
        if sliced:
            condition.add("dimension = {dimension:String}", dimension=of)
        wanted = [("IN", name, values) for name, values in filters.items() if name != "not"]
        for operator, name, values in [*wanted, *(("NOT IN", *each) for each in excluded(filters).items())]:
            held_in = "value" if sliced and name != "status" else column(name)
            parameter = f"{operator[:2].lower()}_{name}"
            condition.add(f"{held_in} {operator} {{{parameter}:Array(String)}}", **{parameter: list(values)})
        condition.add(cover.of_builds)
        value = "value" if sliced else column(by) if by else "''"
        arrays = ", ".join([*_ARRAYS, *([] if by else _PART_ARRAYS)])
        return self._connection.arrow(
            f"SELECT start_s, {_PLAIN.format(value=value)}, requests AS counted, unmeasured AS of_unmeasured, newest_ns, {arrays}"
            f" FROM {'rollup_slices' if sliced else 'rollups'} WHERE {condition.sql}",
            condition.parameters,
        )

    def _fresh(self, cover: _Cover, condition: Where, by: Dimension | None) -> pa.Table:
        """The requests beside the rollups."""
        return self._connection.arrow(
            "SELECT toUInt32(intDiv(entry_start_ns, 1000000000)) AS start_s,"
            f" {_PLAIN.format(value=column(by) if by else repr(''))}, toUInt64(1) AS counted, toUInt64({UNMEASURED}) AS of_unmeasured,"
            f" end_ns AS newest_ns, {ANSWERED} AS answered, e2e_ns, ifNull(ttft_ns, 0) AS ttft, ttft_ns IS NOT NULL AS has_ttft,"
            f" {', '.join(PARTS.values())} FROM requests FINAL WHERE {condition.sql} AND {cover.of_rest}",
            condition.parameters,
        )


_PLAIN = f"toString({{value}}) AS of_value, {FAILED} AS failed, {CANCELLED} AS of_cancelled, toString(ttft_definition) AS definition"
_COLUMNS = ("start_s", "of_value", "failed", "of_cancelled", "definition", "counted", "of_unmeasured", "newest_ns")


@dataclass(frozen=True, slots=True)
class _Lists:
    """The bins of each row, one row after the other, and their weights: counts, or the sums of each part in µs."""

    lengths: I64  # by row
    bins: npt.NDArray[np.integer[Any]]
    weights: Sequence[npt.NDArray[np.generic]]

    def __add__(self, other: "_Lists") -> "_Lists":
        weights = [np.concatenate(pair) for pair in zip(self.weights, other.weights, strict=True)]
        return _Lists(np.append(self.lengths, other.lengths), np.append(self.bins, other.bins), weights)

    def summed(self, histogram_of: I64, shape: tuple[int, int], first_bin: int) -> Sequence[F64]:
        """Each of the weights added up by histogram and bin, the bins from `first_bin` on. `histogram_of` is by row."""
        cells = np.repeat(histogram_of * shape[1] - first_bin, self.lengths) + self.bins
        return [
            np.asarray(np.bincount(cells, weights, minlength=shape[0] * shape[1]), np.float64).reshape(shape)
            for weights in self.weights
        ]


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rollups, or requests as rollups of one each: the plain columns, and the histograms."""

    plain: pa.Table
    e2e: _Lists
    ttft: _Lists
    bands: _Lists
    parts: F64  # parts x BINS, of all rows


def _of_rollups(table: pa.Table) -> _Rows:
    def entries(name: str) -> npt.NDArray[Any]:
        values: npt.NDArray[Any] = table[name].combine_chunks().flatten().to_numpy()
        return values

    def lists(bins: str, *weights: str) -> _Lists:
        lengths = table[bins].combine_chunks().value_lengths().to_numpy()
        return _Lists(lengths, entries(bins), [entries(name) for name in weights])

    return _Rows(
        table.select(_COLUMNS),
        e2e=lists("e2e_bins", "e2e_counts"),
        ttft=lists("ttft_bins", "ttft_counts"),
        bands=lists("band_bins", *(f"band_{part}" for part in PARTS)),
        parts=_of_parts(entries("part_bins"), entries("part_counts"))
        if "part_bins" in table.column_names
        else _NO_PARTS,
    )


def _of_requests(table: pa.Table) -> _Rows:
    answered = table["answered"].to_numpy() != 0
    timed = answered & (table["has_ttft"].to_numpy() != 0)
    e2e = bins_of(table["e2e_ns"].to_numpy()[answered])
    ttft = bins_of(table["ttft"].to_numpy()[timed])
    spent = [table[name].to_numpy()[answered] for name in PARTS.values()]
    return _Rows(
        table.select(_COLUMNS),
        e2e=_Lists(answered.astype(np.int64), e2e, [np.ones(len(e2e))]),
        ttft=_Lists(timed.astype(np.int64), ttft, [np.ones(len(ttft))]),
        bands=_Lists(answered.astype(np.int64), e2e >> BAND_SHIFT, [values / 1e3 for values in spent]),
        parts=_of_parts(np.concatenate([bins_of(values) + BINS * part for part, values in enumerate(spent)])),
    )


def _of_parts(bins: npt.NDArray[Any], counts: npt.NDArray[Any] | None = None) -> F64:
    return np.bincount(bins, counts, minlength=len(PARTS) * BINS).astype(np.float64).reshape(-1, BINS)


_NO_PARTS: F64 = np.zeros((len(PARTS), BINS))


def _merged(stored: _Rows, fresh: _Rows, step_ns: int, by: Dimension | None) -> Rolled | None:
    """None if there are more values than are told apart."""
    table = pa.concat_tables([stored.plain, fresh.plain])
    if not len(table):
        return _NO_REQUESTS
    keys: Sequence[int | str]
    if by:
        keys, key_of = _coded(table["of_value"])
        if len(keys) > MAX_VALUES:
            return None
    else:
        steps = table["start_s"].to_numpy().astype(np.int64) * 10**9
        starts, key_of = np.unique(steps // step_ns * step_ns if step_ns else np.zeros_like(steps), return_inverse=True)
        keys = starts.tolist()
    definitions, definition_of = _coded(table["definition"])
    counted, failed, cancelled, unmeasured = (
        table[name].to_numpy().astype(np.float64) for name in ("counted", "failed", "of_cancelled", "of_unmeasured")
    )

    def sums(weights: F64) -> I64:
        total: I64 = np.bincount(key_of, weights, minlength=len(keys)).astype(np.int64)
        return total

    newest = np.zeros(len(keys), np.int64)
    np.maximum.at(newest, key_of, table["newest_ns"].to_numpy().astype(np.int64))
    e2e, ttft, band = stored.e2e + fresh.e2e, stored.ttft + fresh.ttft, stored.bands + fresh.bands
    used = np.concatenate([e2e.bins, ttft.bins])
    first_band, last_band = (int(edge) >> BAND_SHIFT for edge in ((used.min(), used.max()) if len(used) else (0, 0)))
    first_bin, bands = first_band << BAND_SHIFT, last_band - first_band + 1
    shape = len(keys), bands << BAND_SHIFT
    [of_keys] = e2e.summed(key_of, shape, first_bin)
    [of_definitions] = ttft.summed(
        definition_of * len(keys) + key_of, (len(definitions) * shape[0], shape[1]), first_bin
    )
    return Rolled(
        keys=keys,
        requests=sums(counted),
        errors=sums(counted * failed),
        cancelled=sums(counted * cancelled),
        unmeasured=sums(unmeasured),
        newest_ns=newest,
        first_bin=first_bin,
        e2e=of_keys,
        bands=1e3 * np.stack(band.summed(key_of, (len(keys), bands), first_band), axis=2),
        parts=_NO_PARTS if by else stored.parts + fresh.parts,
        ttft={
            name: counts
            for name, counts in zip(definitions, of_definitions.reshape(-1, *shape), strict=True)
            if counts.any()
        },
    )


_NONE = np.zeros(0, np.int64)
_NO_REQUESTS = Rolled(
    (), _NONE, _NONE, _NONE, _NONE, _NONE, 0, np.zeros((0, 1)), np.zeros((0, 1, len(PARTS))), _NO_PARTS, {}
)


def _coded(texts: pa.ChunkedArray) -> tuple[list[str], I64]:
    """The different texts, in order, and the place of each in them."""
    coded = texts.combine_chunks().dictionary_encode()
    values = coded.dictionary.to_pylist()
    place = np.empty(len(values), np.int64)
    place[sorted(range(len(values)), key=values.__getitem__)] = np.arange(len(values))
    return sorted(values), place[coded.indices.to_numpy()]
