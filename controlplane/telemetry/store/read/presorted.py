"""Reads the half-hour sort, out of which long pages are answered (schema/0009_ranks.sql).

Each half hour of the ledger is sorted once it is over (maintenance/presort.py); the tables call it a `piece`. A query reads how many
values its half hours have in each bin and opens the bins in which its quantiles lie. It reads requests only where no sorted half hour
is usable: at the ends of its window, and where rows were written after the sort.
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
from .rank_bins import BINS, E2E, I64, U64, Counts, IncompleteCellsError, Opened, Values
from .where import ANSWERED, CANCELLED, FAILED, UNMEASURED

HALF_HOUR_S = 1800
HALF_HOUR_NS = HALF_HOUR_S * 10**9
MOST_READ = 0.25
"""A query reads requests alone if more than this share of its requests is in no sorted half hour."""
MOST_RANGES = 20
LEAST = 100_000
"""Below this many sorted requests, reading the requests themselves is no slower."""
KEPT_INDEXES = 340
"""The newest builds whose indexes a process keeps: a week, at some 130 kB each."""
MOST_OPENED = 40_000_000
"""Values of 8 B that one query may open. Bins hold as many only over months, or where all requests take equally long."""

TTFT = "ttft"
FAILED_OF = "failed"
"""A zero for each failed request, so that its bin counts them. 'e2e', 'ttft' and the parts are of answered requests alone."""
CANCELLED_OF = "cancelled"
"""Likewise, of cancelled requests."""
UNMEASURED_OF = "unmeasured"
"""Likewise, of answered requests that lack a server's spans."""
COUNTED = (FAILED_OF, CANCELLED_OF, UNMEASURED_OF)
OF_MODEL = (E2E, *COUNTED)
OTHERS = "\x00"
"""Stands for all models of a half hour that has more than MOST_MODELS."""
MOST_MODELS = 32
_COLUMNS = (
    f"entry_start_ns, e2e_ns, {', '.join(PARTS.values())}, ttft_ns, toString(ttft_definition) AS definition, toString(model) AS model,"
    f" {ANSWERED} AS answered, {FAILED} AS failed, {CANCELLED} AS cancelled,"
    f" {UNMEASURED} AS lacking, end_ns"
)

KINDS = frozenset({*OF_MODEL, TTFT, "part"})
Measure = tuple[str, str]
"""A measure's name and what it is of: ('e2e', model), ('failed', model), ('cancelled', model), ('unmeasured', model),
('ttft', definition), (a part of the time, '')."""
WantedRanks = Mapping[str, tuple[Sequence[float], Sequence[float]]]
"""By kind of measure ('e2e', 'ttft', 'part'): quantiles, and shares s of which the value at rank floor(s n) is wanted."""


@dataclass(frozen=True, slots=True)
class Build:
    """One sort of a half hour. `half_hour` is the number of half hours since the epoch."""

    half_hour: int
    build: int
    newest_ns: int


@dataclass(frozen=True, slots=True)
class Index:
    """How many values a build has in each bin, as of key 0: by model, and of all models together."""

    by_model: Mapping[Measure, Counts]
    whole: Mapping[Measure, Counts]


@dataclass(frozen=True, slots=True)
class Presorted:
    """What a window's figures are made of: its usable builds with their indexes, and the requests outside them."""

    builds: Sequence[Build]
    indexes: Sequence[Index]
    requests: pa.Table


@dataclass(frozen=True, slots=True)
class PresortedFigures:
    """The figures of a window's requests by key: a step, or the position in `models`."""

    e2e: Opened
    ttft: Mapping[str, Opened]  # by definition
    parts: Mapping[str, Opened]
    errors: Mapping[int, int]  # by key; 0 where there is none
    cancelled: Mapping[int, int]  # likewise
    unmeasured: Mapping[int, int]  # likewise
    newest_ns: int
    models: Sequence[str] = ()


PresortedOrUnread = Presorted | Literal["unread"] | None
"""What `presorted` returned, if it was called before."""


class PresortedReader(Connection):
    """Reads sorted half hours, and the requests between them."""

    def presorted(self, window: Window, filters: Filters | None = None) -> Presorted | None:
        """What the window's figures can be made of without reading all requests; None where reading requests is better."""
        whole_ns = (window.to_ns // HALF_HOUR_NS + -window.from_ns // HALF_HOUR_NS) * HALF_HOUR_NS
        if filters or whole_ns < (1 - MOST_READ) * (window.to_ns - window.from_ns):
            return None
        builds, rest = self._usable_builds(window)
        if rest is None:
            return None
        reading = self.beside(self._requests_in, rest)
        indexes = self._indexes(builds)
        read = reading.result()
        return Presorted(builds, indexes, read) if indexes else None

    def _presorted_of(self, presorted: PresortedOrUnread, window: Window, filters: Filters | None) -> Presorted | None:
        """`presorted`, or what it would be if it is unread."""
        return self.presorted(window, filters) if presorted == "unread" else presorted

    def presorted_figures(
        self, presorted: Presorted | None, wanted: WantedRanks, step_ns: int = 0, *, by_model: bool = False
    ) -> PresortedFigures | None:
        """Figures by steps of `step_ns`, a multiple of HALF_HOUR_NS (0 is one step), or by model.

        None where requests must be read instead: there is no usable build or no request, there are too many values to open or too many
        models, or builds were replaced or are incomplete.
        """
        if presorted is None:
            return None
        kinds = {*wanted, *COUNTED}
        steps = _steps(np.array([build.half_hour * HALF_HOUR_NS for build in presorted.builds]), step_ns)
        entered = _steps(presorted.requests["entry_start_ns"].to_numpy().astype(np.int64), step_ns)
        fresh = measures_of(presorted.requests, entered, by_model=by_model, kinds=kinds)
        indexes = [index.by_model if by_model else index.whole for index in presorted.indexes]
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
                    several[_without_model(name, of)].append(counts.of_key(place.get(of, step)))
        own_values: dict[Measure, list[Values]] = defaultdict(list)
        for (name, of), values in fresh.items():
            own = values.of_key(place[of]) if of in place else values
            several[_without_model(name, of)].append(Counts.of(own))
            own_values[_without_model(name, of)].append(own)
        merged = {measure: Counts.merged(counts) for measure, counts in several.items()}
        if (E2E, "") not in merged:
            return None
        failed, cancelled, unmeasured = (_by_key(merged.pop((name, ""), None)) for name in COUNTED)
        cells = {
            measure: rank_bins.cells_to_open(counts, *wanted[_kind(measure[0])]) for measure, counts in merged.items()
        }
        if (
            sum(merged[measure].within(own) * (1 + len(PARTS) * (measure[0] == E2E)) for measure, own in cells.items())
            > MOST_OPENED
        ):
            return None
        opened_values = self._open(presorted.builds, steps, place, cells)
        try:
            opened = {
                measure: Opened.of(
                    counts,
                    cells[measure],
                    [opened_values[measure], *(own.among(cells[measure]).stored() for own in own_values[measure])],
                )
                for measure, counts in merged.items()
            }
        except IncompleteCellsError:
            return None
        return PresortedFigures(
            e2e=opened[E2E, ""],
            ttft={of: measure for (name, of), measure in opened.items() if name == TTFT},
            parts={name: measure for (name, _), measure in opened.items() if name in PARTS},
            errors=failed,
            cancelled=cancelled,
            unmeasured=unmeasured,
            newest_ns=max(
                pc.max(presorted.requests["end_ns"]).as_py() or 0, *(build.newest_ns for build in presorted.builds)
            ),
            models=models,
        )

    def _usable_builds(self, window: Window) -> tuple[list[Build], list[Window] | None]:
        """The up-to-date builds within the window, in order, and the windows outside them. No windows where reading requests is better."""
        within = f"piece BETWEEN {window.from_ns // HALF_HOUR_NS} AND {(window.to_ns - 1) // HALF_HOUR_NS}"
        rows = self.rows(
            "SELECT written.piece, written.touches, ranked.touches = written.touches, build, newest_ns"
            f" FROM (SELECT piece, sum(touches) AS touches FROM touched WHERE {within} GROUP BY piece) AS written"
            f" LEFT JOIN (SELECT piece, touches, build, newest_ns FROM ranked FINAL WHERE {within}) AS ranked"
            " ON ranked.piece = written.piece ORDER BY written.piece"
        )
        builds, rest = list[Build](), list[Window]()
        inside = beside = 0.0
        for half_hour, touches, same, build, newest_ns in rows:
            from_ns, to_ns = (
                max(half_hour * HALF_HOUR_NS, window.from_ns),
                min((half_hour + 1) * HALF_HOUR_NS, window.to_ns),
            )
            if same and build and to_ns - from_ns == HALF_HOUR_NS:
                builds.append(Build(half_hour, build, newest_ns))
                inside += touches
                continue
            beside += touches * (to_ns - from_ns) / HALF_HOUR_NS
            if rest and rest[-1].to_ns == from_ns:
                from_ns = rest.pop().from_ns
            rest.append(Window(from_ns, to_ns))
        worth = inside >= LEAST and beside <= MOST_READ * (inside + beside) and len(rest) <= MOST_RANGES
        return builds, rest if worth else None

    def _requests_in(self, windows: Sequence[Window]) -> pa.Table:
        """The columns that `measures_of` takes, of the requests in any of these windows."""
        among = " OR ".join(
            f"entry_start_ns >= {window.from_ns} AND entry_start_ns < {window.to_ns}" for window in windows
        )
        return self.arrow(f"SELECT {_COLUMNS} FROM requests FINAL WHERE {among or '0'}")

    def _indexes(self, builds: Sequence[Build]) -> list[Index]:
        """The index of each build; an empty list if a build was dropped. A build never changes, so its index is cached."""
        known = {
            build.build: self._indexes_by_build[build.build]
            for build in builds
            if build.build in self._indexes_by_build
        }
        unknown = [build for build in builds if build.build not in known]
        if unknown:
            lists = "build, measures, ofs, widths, bins, counts, sums"
            for row in self.arrow(f"SELECT {lists} FROM ranked FINAL WHERE {_of_builds(unknown)}").to_batches():
                known |= zip(row["build"].to_pylist(), _indexes_of(row), strict=True)
            self._indexes_by_build |= known
            for build in sorted(self._indexes_by_build)[:-KEPT_INDEXES]:
                self._indexes_by_build.pop(build, None)
        return [known[build.build] for build in builds] if len(known) == len(builds) else []

    @cached_property
    def _indexes_by_build(self) -> dict[int, Index]:
        return {}

    def _open(
        self, builds: Sequence[Build], steps: I64, place: Mapping[str, int], cells: Mapping[Measure, I64]
    ) -> dict[Measure, Values]:
        """The builds' values in these cells.

        The query names bins over all builds, so that ClickHouse reads few ranges of its index; it then filters out the other keys.
        """
        wanted_bins = [
            f"({quote(name)}, {bin_})" for (name, _), own in cells.items() for bin_ in np.unique(own % BINS).tolist()
        ]
        key = f"transform(build, {[build.build for build in builds]}, {steps.tolist()}, toInt64(0))"
        if place:
            key = f"transform(toString(of), [{', '.join(map(quote, place))}], {list(place.values())}, toInt64(0))"
        sql = (
            f"SELECT {key} AS key, toString(measure) AS name, toString(of) AS what, bin, values, parts FROM ranks"
            f" WHERE {_of_builds(builds)} AND (measure, bin) IN ({', '.join(wanted_bins)})"
        )
        every = np.unique(np.concatenate(list(cells.values())))
        if len(set(every // BINS)) > 1:
            sql += f" AND key * {BINS} + bin IN ({', '.join(map(str, every.tolist()))})"
        return _values_of(self.arrow(sql), cells)


def _of_builds(builds: Sequence[Build]) -> str:
    listed = ", ".join(str(build.build) for build in builds)
    return f"piece BETWEEN {builds[0].half_hour} AND {builds[-1].half_hour} AND build IN ({listed})"


def _indexes_of(table: pa.RecordBatch) -> Iterator[Index]:
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
            whole[_without_model(*measure)].append(index[measure])
        yield Index(
            index,
            {
                measure: several[0] if len(several) == 1 else Counts.merged(several)
                for measure, several in whole.items()
            },
        )


def _values_of(table: pa.Table, cells: Mapping[Measure, I64]) -> dict[Measure, Values]:
    """Rows of `ranks` by measure. Each row is a cell; cells that are not in `cells` are left out."""
    own = table["key"].to_numpy() * BINS + table["bin"].to_numpy()
    names, ofs = table["name"].to_numpy(), table["what"].to_numpy()
    values, parts, width = _Lists(table["values"]), _Lists(table["parts"]), len(PARTS)
    by_measure = {}
    for (name, of), some in cells.items():
        rows = np.flatnonzero((names == name) & np.isin(own, some) & ((ofs == of) | (name == E2E)))
        made_of = [row_parts.reshape(width, -1).T for row_parts in parts.of(rows)] if name == E2E else None
        by_measure[name, of] = Values(
            np.repeat(own[rows], values.lengths[rows]),
            np.concatenate([np.zeros(0, np.uint64), *values.of(rows)]),
            None if made_of is None else np.concatenate([np.zeros((0, width), np.uint64), *made_of]),
        )
    return by_measure


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
    """The measures of requests as `_requests_in` reads them. `keys` has the step of each request."""
    e2e, parts = read["e2e_ns"].to_numpy(), np.stack([read[column].to_numpy() for column in PARTS.values()], axis=1)
    measures = {}
    answered, *counted = (read[name].to_numpy() > 0 for name in ("answered", "failed", "cancelled", "lacking"))
    if "part" in kinds:
        measures = {(name, ""): Values.of(keys[answered], parts[answered, at]) for at, name in enumerate(PARTS)}
    models = _by_value(read["model"], MOST_MODELS) if by_model else [("", np.ones(len(keys), bool))]
    for model, own in models:
        measures[E2E, model] = Values.of(keys[own & answered], e2e[own & answered], parts[own & answered])
        for name, some in zip(COUNTED, counted, strict=True):
            measures[name, model] = Values.of(keys[own & some], np.zeros(int((own & some).sum()), np.uint64))
    ttft = read["ttft_ns"].combine_chunks()
    there, values = answered & ttft.is_valid().to_numpy(zero_copy_only=False), ttft.fill_null(0).to_numpy()
    for definition, own in _by_value(read["definition"]) if TTFT in kinds else ():
        measures[TTFT, definition] = Values.of(keys[own & there], values[own & there])
    return {measure: values for measure, values in measures.items() if len(values.cells)}


def _by_value(column: pa.ChunkedArray, most: int | None = None) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
    """Each value with a mask of its rows; above `most` values, OTHERS with all rows."""
    encoded = column.combine_chunks().dictionary_encode()
    codes, values = encoded.indices.to_numpy(), encoded.dictionary.to_pylist()
    if most is not None and len(values) > most:
        codes, values = np.zeros_like(codes), [OTHERS]
    for code, value in enumerate(values):
        yield value, codes == code


def _by_key(counts: Counts | None) -> Mapping[int, int]:
    """How many values each key has; 0 for other keys."""
    by_key = defaultdict[int, int](int)
    if counts is not None:
        by_key |= zip((counts.cells // BINS).tolist(), counts.counts.tolist(), strict=True)
    return by_key


def _steps(times_ns: I64, step_ns: int) -> I64:
    return times_ns // step_ns if step_ns else np.zeros(len(times_ns), np.int64)


def _kind(name: str) -> str:
    return "part" if name in PARTS else name


def _without_model(name: str, of: str) -> Measure:
    """The measure over all models: where models are kept apart, they are so by key."""
    return (name, of) if name == TTFT else (name, "")
