"""Reads what sets some requests apart from others, and the heatmap. All figures are of answered requests (latency.py)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import get_args

from controlplane.telemetry.core.query_types import HEATMAP_EDGES_NS, Dimension, Filters, HeatmapCell, Region, Window
from controlplane.telemetry.explain.difference import Explanation, Side, Split, explain

from ..client import StorePart
from ..errors import StoreInputError
from ..write.arrow_columns import PARTS
from .figures import cells_of
from .rollups import Rolled
from .sample import one_in, sampled
from .where import ANSWERED, Where, chart_step_ns, column, where

EXEMPLARS = 3
DIMENSIONS: tuple[Dimension, ...] = tuple(name for name in get_args(Dimension) if name != "status")
"""Answered requests have one status."""


class ExplainReader(StorePart):
    """Queries of the explain panel."""

    def heatmap(
        self, window: Window, filters: Filters | None, step_s: int, rolled: Rolled | None = None
    ) -> list[HeatmapCell]:
        """Requests by step of entry time and by E2E (see HEATMAP_EDGES_NS), in order of both. `rolled` is by this step."""
        step_ns = chart_step_ns(window, step_s)
        if rolled:
            return cells_of(rolled)
        condition = where(window, filters)
        condition.parameters |= {"step_ns": step_ns, "edges": list(HEATMAP_EDGES_NS)}
        rows = self._connection.rows(
            "SELECT intDiv(entry_start_ns, {step_ns:UInt64}) AS step, roundDown(e2e_ns, {edges:Array(UInt64)}) AS low,"
            f" count() FROM requests FINAL WHERE {condition.sql} AND {ANSWERED} GROUP BY step, low ORDER BY step, low",
            condition.parameters,
        )
        above = dict(zip(HEATMAP_EDGES_NS, (*HEATMAP_EDGES_NS[1:], None), strict=True))
        return [HeatmapCell(step * step_ns, low, above[low], requests) for step, low, requests in rows]

    def findings(
        self,
        window: Window,
        filters: Filters | None = None,
        region: Region | None = None,
        limit: int = 10,
        level: int = 1,
    ) -> Explanation:
        """What sets the requests of a region apart from the others of the window, in at most `limit` findings.

        Without a region, the requests above the p95. `level`: one request in so many is read (`one_in`).
        """
        return replace(explain(*self.splits(window, filters, region, level=level), limit), one_in=level)

    def one_in(self, window: Window, filters: Filters | None = None) -> int:
        """Of how many requests one has to be read for an explanation to be quick; 1 for all of them."""
        return one_in(self._connection, window, filters)

    def splits(
        self,
        window: Window,
        filters: Filters | None = None,
        region: Region | None = None,
        dimensions: Sequence[Dimension] = DIMENSIONS,
        level: int = 1,
    ) -> tuple[Split, dict[str, dict[str, Split]]]:
        """Requests and time by stage inside and outside a region: in total, and by each value of each dimension.

        Both sides count exactly. The few trace ids with each value are a random choice of the region's.
        """
        condition = sampled(where(window, filters), window, level)
        condition.add(ANSWERED)
        region = region or self.slowest(window, filters, level=level)
        return self.sides(condition, _within(condition, region), dimensions, PARTS)

    def sides(
        self, whole: Where, part: Where, dimensions: Sequence[Dimension], parts: Mapping[str, str]
    ) -> tuple[Split, dict[str, dict[str, Split]]]:
        """The requests of `part` beside the others of `whole`; `parts`: what is summed of each, by name."""
        everything = self._connection.submit_query(self._by_value, whole, dimensions, parts)
        chosen = self._by_value(part, dimensions, parts, EXEMPLARS)
        total, split = Split(Side(), Side()), dict[str, dict[str, Split]]((name, {}) for name in dimensions)
        for (dimension, value), (count, sums, _) in everything.result().items():
            inside, inside_sums, traces = chosen.get((dimension, value), (0, [0] * len(parts), []))
            outside = max(count - inside, 0)  # rows may arrive between the two queries
            sides = Split(
                Side(inside, dict(zip(parts, inside_sums, strict=True))),
                Side(
                    outside,
                    {name: max(all_ - in_, 0) for name, all_, in_ in zip(parts, sums, inside_sums, strict=True)},
                ),
                tuple(trace.hex() for trace in traces),
            )
            if dimension:
                split[dimension][value] = sides
            else:
                total = sides
        return total, split

    def slowest(self, window: Window, filters: Filters | None = None, quantile: float = 0.95, level: int = 1) -> Region:
        """The region above a quantile (0 to 1) of E2E, exact for the requests that are read. Without requests it is everything."""
        if not 0 <= quantile <= 1:
            raise StoreInputError(f"quantile {quantile} is out of range; use 0 to 1")
        condition = sampled(where(window, filters), window, level)
        [(bound, count)] = self._connection.rows(
            f"SELECT toUInt64(quantileExact({quantile:f})(e2e_ns)), count() FROM {condition.table} FINAL"
            f" WHERE {condition.sql} AND {ANSWERED}",
            condition.parameters,
        )
        return Region(bound + 1 if count else 0)

    def _by_value(
        self, condition: Where, dimensions: Sequence[Dimension], parts: Mapping[str, str], exemplars: int = 0
    ) -> dict[tuple[str, str], tuple[int, list[int], Sequence[bytes]]]:
        """By (dimension, value), and by ("", "") for all: count, sums of `parts`, and as many trace ids as `exemplars`."""
        names = [column(dimension) for dimension in dimensions]
        sets = ", ".join(f"({name})" for name in names)
        sums = ", ".join(f"sum({part})" for part in parts.values())
        traces = f"groupArraySample({exemplars}, 1)(trace_id)" if exemplars else "[]"
        rows = self._connection.rows(
            f"SELECT [{', '.join(f'toString({name})' for name in names)}], grouping({', '.join(names)}),"
            f" count(), [{sums}], {traces}"
            f" FROM {condition.table} FINAL WHERE {condition.sql} GROUP BY GROUPING SETS ({sets}, ())",
            condition.parameters,
        )
        return {_key(dimensions, values, bits): (count, sums, traces) for values, bits, count, sums, traces in rows}


def _key(dimensions: Sequence[Dimension], values: Sequence[str], bits: int) -> tuple[str, str]:
    """ClickHouse's `grouping` sets the bit of each column that a row is not grouped by, the first column's highest."""
    for at, dimension in enumerate(reversed(dimensions)):
        if not bits >> at & 1:
            return dimension, values[len(dimensions) - 1 - at]
    return "", ""


def _within(condition: Where, region: Region) -> Where:
    inside = condition.copy()
    inside.add("e2e_ns >= {region_low:UInt64}", region_low=region.min_e2e_ns)
    if region.max_e2e_ns is not None:
        inside.add("e2e_ns < {region_high:UInt64}", region_high=region.max_e2e_ns)
    if region.window is not None:
        inside.add(
            "entry_start_ns >= {region_from:UInt64} AND entry_start_ns < {region_to:UInt64}",
            region_from=region.window.from_ns,
            region_to=region.window.to_ns,
        )
    return inside
