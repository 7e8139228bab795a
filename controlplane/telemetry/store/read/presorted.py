"""Long pages out of sorted pieces (schema/0009_ranks.sql): which of them a question may use, and what they know.

A piece is half an hour of the ledger, sorted once it is over (sort.py). A question reads how many values its pieces have in each bin, opens
the bins in which its quantiles lie, and reads requests only where no piece is: at the ends of its window, and where something was
written since.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from controlplane.telemetry.core.query_types import Filters, Window

from ..client import Connection
from ..embedded.statement import quote
from ..write.arrow_columns import PARTS
from . import rank_bins
from .rank_bins import BINS, E2E, I64, U64, Counts, Incomplete, Opened, Values
from .where import ANSWERED, CANCELLED, FAILED, UNMEASURED

PIECE_S = 1800
PIECE_NS = PIECE_S * 10**9
MOST_READ = 0.25
"""A question of which more than this share is in no sorted piece is asked of requests alone."""
MOST_RANGES = 20
LEAST = 100_000
"""Fewer sorted requests than this are no slower to read."""
KEPT = 340
"""Indexes of builds that a process keeps, the newest: a week, at some 130 kB each."""
MOST_OPENED = 40_000_000
"""Values of 8 B that one question may open: bins hold so many only of months, or where all take equally long."""

TTFT = "ttft"
FAILED_OF = "failed"
"""A zero for each request that failed: its bin counts them. 'e2e', 'ttft' and the parts are of answered requests alone."""
CANCELLED_OF = "cancelled"
"""The same of those whose client went away."""
UNMEASURED_OF = "unmeasured"
"""The same of answered ones of which a server's spans are missing."""
COUNTED = (FAILED_OF, CANCELLED_OF, UNMEASURED_OF)
OF_MODEL = (E2E, *COUNTED)
OTHERS = "\x00"
"""Stands for all models of a piece that has more than MOST_MODELS."""
MOST_MODELS = 32
_COLUMNS = (
    f"entry_start_ns, e2e_ns, {', '.join(PARTS.values())}, ttft_ns, toString(ttft_definition) AS definition, toString(model) AS model,"
    f" {ANSWERED} AS answered, {FAILED} AS failed, {CANCELLED} AS cancelled,"
    f" {UNMEASURED} AS lacking, end_ns"
)

KINDS = frozenset({*OF_MODEL, TTFT, "part"})
Measure = tuple[str, str]
"""Its name, and what it is of: ('e2e', model), ('failed', model), ('cancelled', model), ('unmeasured', model),
('ttft', definition), (a part of the time, '')."""
Wanted = Mapping[str, tuple[Sequence[float], Sequence[float]]]
"""By kind of measure ('e2e', 'ttft', 'part'): quantiles, and shares s whose rank floor(s n) is looked at."""


@dataclass(frozen=True, slots=True)
class Build:
    """A sorted piece, as it was when it was sorted."""

    piece: int
    build: int
    newest_ns: int


@dataclass(frozen=True, slots=True)
class Index:
    """What a build has in its bins, as of key 0: told apart by model, and altogether."""

    by_model: Mapping[Measure, Counts]
    whole: Mapping[Measure, Counts]


@dataclass(frozen=True, slots=True)
class Known:
    """A window: sorted pieces with what they have in their bins, and the requests beside them."""

    builds: Sequence[Build]
    indexes: Sequence[Index]
    requests: pa.Table


@dataclass(frozen=True, slots=True)
class Sorted:
    """What is known of a window's requests, by key: a step, or of groups the place in `models`."""

    e2e: Opened
    ttft: Mapping[str, Opened]  # by definition
    parts: Mapping[str, Opened]
    errors: Mapping[int, int]  # by key; 0 where there is none
    cancelled: Mapping[int, int]  # likewise
    unmeasured: Mapping[int, int]  # likewise
    newest_ns: int
    models: Sequence[str] = ()


Asked = Known | Literal["not asked"] | None
"""What `known` said, for who asked before."""


class RankedReader(Connection):
    """Reads sorted pieces, and the requests between them."""

    def known(self, window: Window, filters: Filters | None = None) -> Known | None:
        """What can be said of a window before its ranks are asked for; None where requests are better asked themselves."""
        whole_ns = (window.to_ns // PIECE_NS + -window.from_ns // PIECE_NS) * PIECE_NS
        if filters or whole_ns < (1 - MOST_READ) * (window.to_ns - window.from_ns):
            return None
        builds, rest = self._usable(window)
        if rest is None:
            return None
        reading = self.beside(self._between, rest)
        indexes = self._indexes(builds)
        read = reading.result()
        return Known(builds, indexes, read) if indexes else None

    def asked(self, known: Asked, window: Window, filters: Filters | None) -> Known | None:
        """What was known before, or is now."""
        return self.known(window, filters) if known == "not asked" else known

    def sorted(self, known: Known | None, wanted: Wanted, step_ns: int = 0, *, by_model: bool = False) -> Sorted | None:
        """By steps of `step_ns`, whole pieces (0: altogether), or by model. None where requests are better asked themselves: nothing is
        known, or there is nothing, or too much to open, or too many models; or builds were replaced, or are not all here yet."""
        if known is None:
            return None
        kinds = {*wanted, *COUNTED}
        steps = _steps(np.array([one.piece * PIECE_NS for one in known.builds]), step_ns)
        entered = _steps(known.requests["entry_start_ns"].to_numpy().astype(np.int64), step_ns)
        fresh = measures_of(known.requests, entered, by_model=by_model, kinds=kinds)
        indexes = [one.by_model if by_model else one.whole for one in known.indexes]
        models = (
            sorted({of for index in (*indexes, fresh) for name, of in index if name in OF_MODEL}) if by_model else []
        )
        if OTHERS in models:
            return None
        place = {model: number for number, model in enumerate(models)}
        several: dict[Measure, list[Counts]] = defaultdict(list)
        for step, index in zip(steps.tolist(), indexes, strict=True):
            for (name, of), counts in index.items():
                if _kind(name) in kinds:
                    several[_merged(name, of)].append(counts.of_key(place.get(of, step)))
        held: dict[Measure, list[Values]] = defaultdict(list)
        for (name, of), values in fresh.items():
            own = values.of_key(place[of]) if of in place else values
            several[_merged(name, of)].append(Counts.of(own))
            held[_merged(name, of)].append(own)
        merged = {measure: Counts.merged(counts) for measure, counts in several.items()}
        if (E2E, "") not in merged:
            return None
        failed, cancelled, unmeasured = (_by_key(merged.pop((name, ""), None)) for name in COUNTED)
        cells = {measure: rank_bins.wanted(counts, *wanted[_kind(measure[0])]) for measure, counts in merged.items()}
        if (
            sum(merged[measure].within(own) * (1 + len(PARTS) * (measure[0] == E2E)) for measure, own in cells.items())
            > MOST_OPENED
        ):
            return None
        read = self._open(known.builds, steps, place, cells)
        try:
            opened = {
                measure: Opened.of(
                    counts,
                    cells[measure],
                    [read[measure], *(own.among(cells[measure]).written() for own in held[measure])],
                )
                for measure, counts in merged.items()
            }
        except Incomplete:
            return None
        return Sorted(
            e2e=opened[E2E, ""],
            ttft={of: one for (name, of), one in opened.items() if name == TTFT},
            parts={name: one for (name, _), one in opened.items() if name in PARTS},
            errors=failed,
            cancelled=cancelled,
            unmeasured=unmeasured,
            newest_ns=max(pc.max(known.requests["end_ns"]).as_py() or 0, *(one.newest_ns for one in known.builds)),
            models=models,
        )

    def _usable(self, window: Window) -> tuple[list[Build], list[Window] | None]:
        """Builds within the window that hold what the requests do, in order; and the windows beside them, None where requests are better
        asked themselves."""
        within = f"piece BETWEEN {window.from_ns // PIECE_NS} AND {(window.to_ns - 1) // PIECE_NS}"
        found = self.rows(
            "SELECT written.piece, written.touches, ranked.touches = written.touches, build, newest_ns"
            f" FROM (SELECT piece, sum(touches) AS touches FROM touched WHERE {within} GROUP BY piece) AS written"
            f" LEFT JOIN (SELECT piece, touches, build, newest_ns FROM ranked FINAL WHERE {within}) AS ranked"
            " ON ranked.piece = written.piece ORDER BY written.piece"
        )
        builds, rest = list[Build](), list[Window]()
        inside = beside = 0.0
        for piece, touches, same, build, newest_ns in found:
            from_ns, to_ns = max(piece * PIECE_NS, window.from_ns), min((piece + 1) * PIECE_NS, window.to_ns)
            if same and build and to_ns - from_ns == PIECE_NS:
                builds.append(Build(piece, build, newest_ns))
                inside += touches
                continue
            beside += touches * (to_ns - from_ns) / PIECE_NS
            if rest and rest[-1].to_ns == from_ns:
                from_ns = rest.pop().from_ns
            rest.append(Window(from_ns, to_ns))
        worth = inside >= LEAST and beside <= MOST_READ * (inside + beside) and len(rest) <= MOST_RANGES
        return builds, rest if worth else None

    def _between(self, windows: Sequence[Window]) -> pa.Table:
        """What `measures_of` takes, of the requests in any of these windows."""
        among = " OR ".join(f"entry_start_ns >= {one.from_ns} AND entry_start_ns < {one.to_ns}" for one in windows)
        return self.arrow(f"SELECT {_COLUMNS} FROM requests FINAL WHERE {among or '0'}")

    def _indexes(self, builds: Sequence[Build]) -> list[Index]:
        """What each build has in its bins; nothing where one is no longer there. No build ever changes: it is read once, and kept."""
        known = {one.build: self._kept[one.build] for one in builds if one.build in self._kept}
        unknown = [one for one in builds if one.build not in known]
        if unknown:
            lists = "build, measures, ofs, widths, bins, counts, sums"
            for row in self.arrow(f"SELECT {lists} FROM ranked FINAL WHERE {_among(unknown)}").to_batches():
                known |= zip(row["build"].to_pylist(), _read(row), strict=True)
            self._kept |= known
            for build in sorted(self._kept)[:-KEPT]:
                self._kept.pop(build, None)
        return [known[one.build] for one in builds] if len(known) == len(builds) else []

    @cached_property
    def _kept(self) -> dict[int, Index]:
        return {}

    def _open(
        self, builds: Sequence[Build], steps: I64, place: Mapping[str, int], cells: Mapping[Measure, I64]
    ) -> dict[Measure, Values]:
        """What the builds hold of these cells. Bins are asked for over all builds, so that the store reads few ranges of its index; those
        of other keys are left out as it reads them."""
        asked = [
            f"({quote(name)}, {bin_})" for (name, _), own in cells.items() for bin_ in np.unique(own % BINS).tolist()
        ]
        key = f"transform(build, {[one.build for one in builds]}, {steps.tolist()}, toInt64(0))"
        if place:
            key = f"transform(toString(of), [{', '.join(map(quote, place))}], {list(place.values())}, toInt64(0))"
        sql = (
            f"SELECT {key} AS key, toString(measure) AS name, toString(of) AS what, bin, values, parts FROM ranks"
            f" WHERE {_among(builds)} AND (measure, bin) IN ({', '.join(asked)})"
        )
        every = np.unique(np.concatenate(list(cells.values())))
        if len(set(every // BINS)) > 1:
            sql += f" AND key * {BINS} + bin IN ({', '.join(map(str, every.tolist()))})"
        return _opened(self.arrow(sql), cells)


def _among(builds: Sequence[Build]) -> str:
    listed = ", ".join(str(one.build) for one in builds)
    return f"piece BETWEEN {builds[0].piece} AND {builds[-1].piece} AND build IN ({listed})"


def _read(table: pa.RecordBatch) -> Iterator[Index]:
    """Rows of `ranked`."""
    for row in range(table.num_rows):
        bins, counts, sums = (table[name][row].values.to_numpy() for name in ("bins", "counts", "sums"))
        measures = zip(table["measures"][row].as_py(), table["ofs"][row].as_py(), strict=True)
        rest, index, whole = sums.reshape(-1, len(PARTS)), {}, defaultdict(list)
        for measure, (first, last) in zip(
            measures, pairwise([0, *accumulate(table["widths"][row].as_py())]), strict=True
        ):
            parts = None
            if measure[0] == E2E:
                parts, rest = rest[: last - first], rest[last - first :]
            index[measure] = Counts(bins[first:last].astype(np.int64), counts[first:last].astype(np.int64), parts)
            whole[_merged(*measure)].append(index[measure])
        yield Index(
            index,
            {
                measure: several[0] if len(several) == 1 else Counts.merged(several)
                for measure, several in whole.items()
            },
        )


def _opened(table: pa.Table, cells: Mapping[Measure, I64]) -> dict[Measure, Values]:
    """Rows of `ranks`, of which each is a cell, by measure; of cells that were not asked for nothing is kept."""
    own = table["key"].to_numpy() * BINS + table["bin"].to_numpy()
    names, ofs = table["name"].to_numpy(), table["what"].to_numpy()
    values, parts, width = _Lists(table["values"]), _Lists(table["parts"]), len(PARTS)
    found = {}
    for (name, of), some in cells.items():
        rows = np.flatnonzero((names == name) & np.isin(own, some) & ((ofs == of) | (name == E2E)))
        made_of = [one.reshape(width, -1).T for one in parts.of(rows)] if name == E2E else None
        found[name, of] = Values(
            np.repeat(own[rows], values.lengths[rows]),
            np.concatenate([np.zeros(0, np.uint64), *values.of(rows)]),
            None if made_of is None else np.concatenate([np.zeros((0, width), np.uint64), *made_of]),
        )
    return found


class _Lists:
    """A column of lists."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        lists = column.combine_chunks()
        self._flat: U64 = lists.flatten().to_numpy()
        self.lengths: I64 = lists.value_lengths().to_numpy().astype(np.int64)
        self._ends: I64 = np.cumsum(self.lengths)

    def of(self, rows: I64) -> list[U64]:
        ends = zip((self._ends - self.lengths)[rows].tolist(), self._ends[rows].tolist(), strict=True)
        return [self._flat[first:last] for first, last in ends]


def measures_of(read: pa.Table, keys: I64, *, by_model: bool, kinds: Collection[str] = KINDS) -> dict[Measure, Values]:
    """The measures of requests as `_between` reads them, each in the step that `keys` says."""
    e2e, parts = read["e2e_ns"].to_numpy(), np.stack([read[column].to_numpy() for column in PARTS.values()], axis=1)
    found = {}
    answered, *counted = (read[name].to_numpy() > 0 for name in ("answered", "failed", "cancelled", "lacking"))
    if "part" in kinds:
        found = {(name, ""): Values.of(keys[answered], parts[answered, at]) for at, name in enumerate(PARTS)}
    models = _told(read["model"], MOST_MODELS) if by_model else [("", np.ones(len(keys), bool))]
    for model, own in models:
        found[E2E, model] = Values.of(keys[own & answered], e2e[own & answered], parts[own & answered])
        for name, some in zip(COUNTED, counted, strict=True):
            found[name, model] = Values.of(keys[own & some], np.zeros(int((own & some).sum()), np.uint64))
    ttft = read["ttft_ns"].combine_chunks()
    there, values = answered & ttft.is_valid().to_numpy(zero_copy_only=False), ttft.fill_null(0).to_numpy()
    for definition, own in _told(read["definition"]) if TTFT in kinds else ():
        found[TTFT, definition] = Values.of(keys[own & there], values[own & there])
    return {measure: values for measure, values in found.items() if len(values.cells)}


def _told(column: pa.ChunkedArray, most: int | None = None) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
    """Each value, and where it is; of more than `most` values all together as OTHERS."""
    found = column.combine_chunks().dictionary_encode()
    codes, values = found.indices.to_numpy(), found.dictionary.to_pylist()
    if most is not None and len(values) > most:
        codes, values = np.zeros_like(codes), [OTHERS]
    for code, value in enumerate(values):
        yield value, codes == code


def _by_key(counts: Counts | None) -> Mapping[int, int]:
    """How many values each key has; 0 of a key without any."""
    found = defaultdict[int, int](int)
    if counts is not None:
        found |= zip((counts.cells // BINS).tolist(), counts.counts.tolist(), strict=True)
    return found


def _steps(times_ns: I64, step_ns: int) -> I64:
    return times_ns // step_ns if step_ns else np.zeros(len(times_ns), np.int64)


def _kind(name: str) -> str:
    return "part" if name in PARTS else name


def _merged(name: str, of: str) -> Measure:
    """The measure that one is a part of: models are told apart by key, where at all."""
    return (name, of) if name == TTFT else (name, "")
