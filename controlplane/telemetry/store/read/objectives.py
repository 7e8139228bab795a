"""Counts requests for all objectives in one scan, by the rules of `controlplane.slo.core.sli`.

The thresholds of all objectives on a measure cut its values into classes. Requests counted by class answer every threshold exactly,
at the same cost for ten objectives as for a thousand.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from controlplane.telemetry.core.dimension_values import MAX_VALUE_CHARS
from controlplane.telemetry.core.objective_counts import Classes, Cut
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.core.recorded import longest_without

from ..client import StorePart
from ..errors import StoreInputError
from .sli_sql import UNPRICED, code
from .where import ANSWERED, column, where

CLOCKS_DIFFER_NS = 10 * 10**9
OTHER = "\x00"
"""Stands for every value of a dimension that was not requested."""
TALLY_SCHEMA = pa.schema(
    [
        pa.field("definition", pa.string()),
        pa.field("hour", pa.uint32()),
        pa.field("version", pa.uint64()),
        pa.field("splits", pa.list_(pa.string())),
        pa.field("bad", pa.list_(pa.uint32())),
        pa.field("total", pa.list_(pa.uint32())),
    ]
)


MAX_LASTED_NS = 3_600 * 10**9
"""Requests that lasted longer are not looked for by when they ended."""
ENDS_STEP_S = 10
_ENDED = (
    "entry_start_ns >= {begun_ns:UInt64} AND entry_start_ns < {to_ns:UInt64}"
    " AND end_ns >= {from_ns:UInt64} AND end_ns < {to_ns:UInt64}"
)


def _ended_in(window: Window) -> dict[str, object]:
    begun_ns = max(window.from_ns - MAX_LASTED_NS, 0)
    return {"begun_ns": begun_ns, "from_ns": window.from_ns, "to_ns": window.to_ns}


class ObjectiveReader(StorePart):
    """Queries of the evaluation."""

    def classes(
        self, window: Window, cuts: Sequence[Cut], dimensions: Mapping[str, frozenset[str] | None], step_s: int
    ) -> Classes:
        """Count the window's requests. `dimensions` has the values to count separately, None for all; other values count as `OTHER`."""
        if step_s < 1:
            raise StoreInputError(f"step_s={step_s} is below 1: use 10")
        condition = where(window)
        condition.parameters["step_ns"] = step_s * 10**9
        codes = [code(cut, index, condition.parameters) for index, cut in enumerate(cuts)]
        expressions = [_bounded_value(name, values, condition.parameters) for name, values in dimensions.items()]
        columns = "".join(
            f", {expression} AS d_{name}" for name, expression in zip(dimensions, expressions, strict=True)
        )
        names = "".join(f", d_{name}" for name in dimensions)
        table = self._connection.arrow(
            f"SELECT step{names}, cut, code, count() AS requests FROM ("
            f"SELECT toInt64(intDiv(entry_start_ns, {{step_ns:UInt64}})) AS step{columns}, [{', '.join(codes)}] AS codes"
            f" FROM requests FINAL WHERE {condition.sql}"
            f") ARRAY JOIN codes AS code, arrayEnumerate(codes) AS cut WHERE code >= 0 GROUP BY step{names}, cut, code",
            condition.parameters,
        )
        coded = _whole(table, "code")
        return Classes(
            step=_whole(table, "step"),
            dimensions={name: table[f"d_{name}"].to_numpy().astype(object) for name in dimensions},
            cut=_whole(table, "cut") - 1,
            place=coded >> 1,
            bound=(coded & 1).astype(bool),
            requests=_whole(table, "requests"),
        )

    def unpriced(
        self, window: Window, scope: Mapping[str, str], split_by: Sequence[str]
    ) -> dict[tuple[str, ...], tuple[int, int]]:
        """How many answered requests with tokens have no cost, by the values of `split_by`: without a price, and whose answer's tokens
        nobody counted. Only values that have some.
        """
        counts = "countIf(output_tokens IS NOT NULL), countIf(output_tokens IS NULL)"
        return self._by_split(counts, UNPRICED, window, scope, split_by)

    def unmeasured(
        self, window: Window, scope: Mapping[str, str], split_by: Sequence[str]
    ) -> dict[tuple[str, ...], tuple[int, int]]:
        """How many answered requests lack spans of their server, and how many were answered, by the values of `split_by`."""
        return self._by_split("countIf(unmeasured), count()", ANSWERED, window, scope, split_by)

    def _by_split(
        self, counts: str, of: str, window: Window, scope: Mapping[str, str], split_by: Sequence[str]
    ) -> dict[tuple[str, ...], tuple[int, int]]:
        condition = where(window, {name: (value,) for name, value in scope.items()})  # type: ignore[misc]
        names = "".join(f"{_bounded(f'toString({column(name)})')} AS d_{name}, " for name in split_by)
        groups = f" GROUP BY {', '.join(f'd_{name}' for name in split_by)}" if split_by else ""
        stored = self._connection.rows(
            f"SELECT {names}{counts} FROM requests FINAL WHERE {condition.sql} AND {of}{groups}", condition.parameters
        )
        return {
            tuple(map(str, values)): (int(first), int(second)) for *values, first, second in stored if first or second
        }

    def oldest_entry(self) -> int | None:
        """When the oldest stored request began, ns; None in an empty store. Read from the index of the parts."""
        [(count, oldest)] = self._connection.rows("SELECT count(), min(entry_start_ns) FROM requests")
        return oldest if count else None

    def newest_end(self, now_ns: int) -> int | None:
        """When the newest request ended, ns, of those that began in the day before `now_ns`; None where there is none.

        Spans from further in the future than clocks differ do not count.
        """
        for back_ns in (60 * 10**9, 3_600 * 10**9, 86_400 * 10**9):  # usually the first has requests
            [(count, newest)] = self._connection.rows(
                "SELECT count(), max(end_ns) FROM requests WHERE entry_start_ns >= {from_ns:UInt64}"
                " AND entry_start_ns < {to_ns:UInt64} AND end_ns < {to_ns:UInt64}",
                {"from_ns": max(now_ns - back_ns, 0), "to_ns": now_ns + CLOCKS_DIFFER_NS},
            )
            if count:
                return int(newest)
        return None

    def ended(self, window: Window) -> dict[tuple[str, str], int]:
        """How many requests ended in the window, but for cancelled ones, by model and tier."""
        stored = self._connection.rows(
            f"SELECT toString(model), toString(tier), count() FROM requests FINAL WHERE {_ENDED}"
            " AND status != 'cancelled' GROUP BY model, tier",
            _ended_in(window),
        )
        return {(model, tier): int(number) for model, tier, number in stored}

    def longest_without_ends(self, from_s: int, to_s: int) -> tuple[int, int]:
        """The longest time of a range in which no request ended, to ENDS_STEP_S, s since the epoch."""
        first, end = from_s // ENDS_STEP_S, -(-to_s // ENDS_STEP_S)
        window = Window(first * ENDS_STEP_S * 10**9, end * ENDS_STEP_S * 10**9)
        stored = self._connection.rows(
            f"SELECT DISTINCT toInt64(intDiv(end_ns, {ENDS_STEP_S * 10**9})) FROM requests FINAL WHERE {_ENDED}",
            _ended_in(window),
        )
        begin, close = longest_without([int(step) for (step,) in stored], first, end)
        return max(from_s, begin * ENDS_STEP_S), min(to_s, close * ENDS_STEP_S)

    def tallies(self, definitions: Sequence[str], from_hour: int, to_hour: int) -> pa.Table:
        """Stored hours (since the epoch), `from_hour <= hour < to_hour`, as TALLY_SCHEMA without the version."""
        return self._connection.arrow(
            "SELECT toString(definition) AS definition, hour, splits, bad, total FROM tallies FINAL"
            " WHERE definition IN {definitions:Array(String)} AND hour >= {from_hour:UInt32} AND hour < {to_hour:UInt32}"
            " ORDER BY definition, hour",
            {"definitions": list(definitions), "from_hour": max(from_hour, 0), "to_hour": to_hour},
        )

    def insert_tallies(self, columns: pa.Table) -> None:
        """Append hours as TALLY_SCHEMA. Of rows with one definition and hour the highest version counts."""
        if len(columns):
            self._connection.insert_arrow("tallies", columns)


def _bounded_value(name: str, values: frozenset[str] | None, parameters: dict[str, object]) -> str:
    if values is None:
        return _bounded(f"toString({column(name)})")
    parameters[f"values_{name}"] = sorted(values)
    return f"if({column(name)} IN {{values_{name}:Array(String)}}, toString({column(name)}), '{OTHER}')"


def _bounded(value: str) -> str:
    """The value without NUL, which PostgreSQL cannot store, and cut to a bounded length, for keys and scopes."""
    shown = f"replaceAll({value}, '\\0', '␀')"
    cut = f"concat(substringUTF8({shown}, 1, 140), '… [cut: ', toString(length({value})), ' bytes, ', lower(hex(sipHash64({value}))), ']')"
    return f"if(lengthUTF8({value}) > {MAX_VALUE_CHARS}, {cut}, {shown})"


def _whole(table: pa.Table, name: str) -> npt.NDArray[np.int64]:
    return table[name].to_numpy().astype(np.int64)  # type: ignore[no-any-return]
