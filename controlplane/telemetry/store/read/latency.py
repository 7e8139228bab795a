"""Computes latency figures from request rows: exact quantiles, shares of time, and the stacks of the chart.

Definitions (each is tested against numpy on the same rows):

- Latency is of answered requests (status `ok`). An error may be fast or slow, and a client chooses how long it waits before it
  cancels, so neither has a latency. Both are counted beside it.
- Quantiles are linear between the two nearest ranks (`quantileExactInclusive`; numpy's default method).
- An error is a request with status `error` or `rejected`. A cancelled request is not an error.
- `share` of a stage: its time over all answered requests, divided by their end-to-end time.
- `share_above_median`: let A be the answered requests whose E2E is above the median and M the middle fifth, those whose E2E lies
  between the 0.4 and 0.6 quantiles, both included (all requests, where none lies there: fewer than five). A stage's share
  is (its mean in A - its mean in M) / (mean E2E in A - mean E2E in M); all are 0 where no request is above the median.
- A stack's band around a quantile: answered requests whose E2E is between those at ranks floor(low n) and floor(high n), from 0, both
  included: 0.40..0.60 for p50, 0.925..0.975 for p95, 0.985..0.995 for p99. It always holds at least one request.

A report is four queries: two run beside the two that depend on each other. Long windows are answered out of rollups (rollups.py): counts
are exact, and times within 0.5 %.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.telemetry.core.query_types import (
    Cell,
    Cells,
    Dimension,
    Filters,
    Group,
    LatencyPoint,
    LatencyReport,
    Quantiles,
    Totals,
    Window,
)

from ..write.arrow_columns import PARTS
from .figures import (
    BANDS,
    CUTS,
    EDGES,
    EMPTY,
    LEVELS,
    NOTHING,
    Sums,
    Total,
    groups_of,
    ms,
    points_of,
    report,
    report_of,
    shares,
    stacks_of,
    totals_of,
)
from .rollups import RolledOrUnread, RollupReader
from .where import ANSWERED, CANCELLED, FAILED, UNMEASURED, Where, chart_step_ns, column, where

_QUANTILES = f"quantilesExactInclusive({', '.join(map(str, LEVELS))})"
_QUANTILES_ANSWERED = f"quantilesExactInclusiveIf({', '.join(map(str, LEVELS))})(e2e_ns, {ANSWERED})"
_Ttft = Mapping[Any, dict[str, tuple[int, Quantiles]]]


class LatencyReader(RollupReader):
    """Queries of the latency page."""

    def report(
        self, window: Window, filters: Filters | None = None, rolled: RolledOrUnread = "unread"
    ) -> LatencyReport:
        """One report over all requests of the window. `rolled` is what `rolled()` returned for it by any step, if it was called before."""
        rolled = self.rolled(window, filters) if rolled == "unread" else rolled
        if rolled:
            return report_of(rolled)
        return dict(self._reports("''", where(window, filters))).get("", EMPTY)

    def reports_by(
        self, window: Window, filters: Filters | None, dimension: Dimension
    ) -> list[tuple[str, LatencyReport]]:
        """A report for each value of a dimension, the most frequent first."""
        return self._reports(f"toString({column(dimension)})", where(window, filters))

    def series(
        self, window: Window, filters: Filters | None, step_s: int, rolled: RolledOrUnread = "unread"
    ) -> list[LatencyPoint]:
        """A point for each step that has requests, in order of time; steps begin at multiples of `step_s` since the epoch.

        `rolled` is what `rolled()` returned for this step, if it was called before.
        """
        step_ns = chart_step_ns(window, step_s)
        rolled = self.rolled(window, filters, step_ns) if rolled == "unread" else rolled
        if rolled:
            return points_of(rolled)
        condition = where(window, filters)
        condition.parameters["step_ns"] = step_ns
        key = "intDiv(entry_start_ns, {step_ns:UInt64})"
        ttft = self._connection.submit_query(self._ttft, key, condition)
        points = self._connection.rows(
            f"SELECT {key} AS key, count(), countIf({FAILED}), countIf({CANCELLED}), {_QUANTILES_ANSWERED},"
            f" quantilesExactIf({', '.join(map(str, EDGES))})(e2e_ns, {ANSWERED})"
            f" FROM requests FINAL WHERE {condition.sql} GROUP BY key ORDER BY key",
            condition.parameters,
        )
        answered = {row[0] for row in points if row[1] > row[2] + row[3]}
        stacks = self._bands(key, condition, {row[0]: row[5] for row in points if row[0] in answered})
        definitions = ttft.result()
        return [
            LatencyPoint(
                start_ns=key * step_ns,
                requests=count,
                errors=errors,
                cancelled=cancelled,
                e2e_ms=ms(e2e) if key in answered else None,
                ttft_ms={name: quantiles for name, (_, quantiles) in definitions.get(key, {}).items()},
                stack_ms=stacks_of(stacks[key]) if key in answered else {},
            )
            for key, count, errors, cancelled, e2e, _ in points
            if key in stacks or key not in answered  # a row may arrive between the queries
        ]

    def outline(
        self, window: Window, filters: Filters | None, step_s: int, rolled: RolledOrUnread = "unread"
    ) -> tuple[LatencyReport, list[LatencyPoint]]:
        """`report` and `series` without their stages, in two queries instead of seven."""
        step_ns = chart_step_ns(window, step_s)
        rolled = self.rolled(window, filters, step_ns) if rolled == "unread" else rolled
        if rolled:
            return report_of(rolled), points_of(rolled)
        condition = where(window, filters)
        condition.parameters["step_ns"] = step_ns
        key = "intDiv(entry_start_ns, {step_ns:UInt64})"
        ttft = self._connection.submit_query(self._ttft, key, condition, whole=True)
        rows = self._connection.rows(
            f"SELECT {key} AS key, count(), countIf({FAILED}), countIf({CANCELLED}), {_QUANTILES_ANSWERED}, countIf({UNMEASURED}),"
            f" max(end_ns), grouping(key) AS of_all FROM requests FINAL WHERE {condition.sql}"
            " GROUP BY GROUPING SETS ((key), ()) ORDER BY of_all DESC, key",
            condition.parameters,
        )
        definitions = ttft.result()
        whole, points = EMPTY, []
        for key_of, count, errors, cancelled, e2e, unmeasured, newest_ns, of_all in rows:
            of_key = definitions.get(None if of_all else key_of, {})
            e2e_ms = ms(e2e) if count > errors + cancelled else None
            ttft_ms = {name: quantiles for name, (_, quantiles) in of_key.items()}
            if of_all and count:
                counts = {name: number for name, (number, _) in of_key.items()}
                whole = LatencyReport(count, errors, e2e_ms, ttft_ms, counts, {}, newest_ns, cancelled, unmeasured)
            elif count:
                points.append(LatencyPoint(key_of * step_ns, count, errors, e2e_ms, ttft_ms, {}, cancelled))
        return whole, points

    def _bands(self, key: str, condition: Where, cuts: Mapping[int, Sequence[int]]) -> Mapping[int, Sequence[float]]:
        """By step: mean ns by band, then by part. `cuts` has the lower and upper E2E of each band of each step, in order of bands."""
        if not cuts:
            return {}
        steps = range(min(cuts), max(cuts) + 1)
        nothing = [1, 0] * len(BANDS)
        parameters = {**condition.parameters, "first": steps.start}
        for at, band in enumerate(BANDS):
            for side in range(2):
                parameters[f"{band}_{side}"] = [cuts.get(step, nothing)[2 * at + side] for step in steps]
        place = f"{key} - {{first:UInt64}} + 1"
        within = ", ".join(
            f"e2e_ns BETWEEN {{{band}_0:Array(UInt64)}}[{place}] AND {{{band}_1:Array(UInt64)}}[{place}] AS {band}"
            for band in BANDS
        )
        means = ", ".join(f"avgIf({part}, {band})" for band in BANDS for part in PARTS.values())
        rows = self._connection.rows(
            f"SELECT {key} AS key, [{means}] FROM (SELECT *, {within} FROM requests FINAL WHERE {condition.sql} AND {ANSWERED})"
            f" WHERE {' OR '.join(BANDS)} GROUP BY key",
            parameters,
        )
        return dict(rows)

    def totals(self, window: Window, filters: Filters | None = None) -> Totals:
        """Counts, quantiles of E2E, and the end of the newest request."""
        if rolled := self.rolled(window, filters):
            return totals_of(rolled)
        total = self._totals("''", where(window, filters)).get("")
        return (
            Totals(total.requests, total.errors, total.e2e_ms, total.newest_ns, total.cancelled) if total else NOTHING
        )

    def groups(self, window: Window, filters: Filters | None, dimension: Dimension) -> dict[str, Group]:
        """Counts, E2E and mean stages for each value of a dimension, the most frequent first."""
        if rolled := self.rolled(window, filters, by=dimension):
            return groups_of(rolled)
        key, condition = f"toString({column(dimension)})", where(window, filters)
        totals = self._totals(key, condition)
        sums = self._sums(key, condition, totals)
        return {
            value: Group(total.requests, total.errors, total.e2e_ms, shares(sums.get(value, {})), total.cancelled)
            for value, total in totals.items()
            if value in sums or not total.answered  # a row may arrive between the queries
        }

    def cells(
        self, window: Window, filters: Filters | None, dimensions: tuple[Dimension, Dimension], most: int
    ) -> Cells:
        """Of requests that are stored one by one, by the values of two dimensions: the `most` frequent pairs."""
        condition = where(window, filters)
        names = [f"toString({column(name)})" for name in dimensions]
        rows = self._connection.rows(
            f"SELECT {names[0]} AS of_row, {names[1]} AS of_column, count() AS n, countIf({FAILED}), countIf({ANSWERED}),"
            f" {_QUANTILES_ANSWERED}, count() OVER (), sum(count()) OVER ()"
            f" FROM requests FINAL WHERE {condition.sql} GROUP BY of_row, of_column ORDER BY n DESC, of_row, of_column"
            " LIMIT {most:UInt64}",
            {**condition.parameters, "most": most},
        )
        shown = [
            Cell(of_row, of_column, count, errors, ms(e2e) if answered else None)
            for of_row, of_column, count, errors, answered, e2e, *_ in rows
        ]
        pairs, requests = rows[0][6:8] if rows else (0, 0)
        return Cells(shown, pairs - len(shown), requests - sum(cell.requests for cell in shown))

    def _reports(self, key: str, condition: Where) -> list[tuple[str, LatencyReport]]:
        ttft = self._connection.submit_query(self._ttft, key, condition)
        by_part = self._connection.submit_query(self._by_part, key, condition)
        totals = self._totals(key, condition)
        sums = self._sums(key, condition, totals)
        stages, definitions = by_part.result(), ttft.result()
        return [
            (value, report(total, stages.get(value, {}), sums.get(value, {}), definitions.get(value, {})))
            for value, total in totals.items()
            if (value in sums and value in stages) or not total.answered  # a row may arrive between the queries
        ]

    def _totals(self, key: str, condition: Where) -> dict[str, "Total"]:
        """By key, the most frequent first."""
        rows = self._connection.rows(
            f"SELECT {key} AS key, count() AS n, countIf({FAILED}), countIf({CANCELLED}), countIf({UNMEASURED}), max(end_ns),"
            f" quantilesExactInclusiveIf({', '.join(map(str, CUTS))})(e2e_ns, {ANSWERED})"
            f" FROM requests FINAL WHERE {condition.sql} GROUP BY key ORDER BY n DESC, key",
            condition.parameters,
        )
        return {row[0]: Total(*row[1:]) for row in rows}

    def _by_part(self, key: str, condition: Where) -> dict[str, dict[str, Quantiles]]:
        """By key, by part."""
        rows = self._connection.rows(
            f"SELECT {key} AS key, [{', '.join(f'{_QUANTILES}({part})' for part in PARTS.values())}]"
            f" FROM requests FINAL WHERE {condition.sql} AND {ANSWERED} GROUP BY key",
            condition.parameters,
        )
        return {value: dict(zip(PARTS, map(ms, quantiles), strict=True)) for value, quantiles in rows}

    def _sums(self, key: str, condition: Where, totals: Mapping[str, "Total"]) -> Mapping[str, "Sums"]:
        """By key: count and time in each part of the answered requests below, in and above the middle."""
        totals = {value: total for value, total in totals.items() if total.answered}
        cut = {
            name: f"transform({key}, {{cut_keys:Array(String)}}, {{cut_{name}:Array(Float64)}}, toFloat64(0))"
            for name in ("median", "low", "high")
        }
        rows = self._connection.rows(
            f"SELECT {key} AS key,"
            f" multiIf(e2e_ns BETWEEN {cut['low']} AND {cut['high']}, if(e2e_ns > {cut['median']}, 'both', 'middle'),"
            f" e2e_ns > {cut['median']}, 'above', 'below') AS class,"
            f" count(), [{', '.join(f'sum({part})' for part in PARTS.values())}]"
            f" FROM requests FINAL WHERE {condition.sql} AND {ANSWERED} GROUP BY key, class",
            {
                **condition.parameters,
                "cut_keys": list(totals),
                "cut_median": [total.e2e_ns[0] for total in totals.values()],
                "cut_low": [total.e2e_ns[3] for total in totals.values()],
                "cut_high": [total.e2e_ns[4] for total in totals.values()],
            },
        )
        sums: dict[str, Sums] = defaultdict(dict)
        for value, name, count, parts in rows:
            sums[value][name] = (count, parts)
        return sums

    def _ttft(self, key: str, condition: Where, *, whole: bool = False) -> _Ttft:
        """By key, by definition: how many answered requests have a TTFT, and its quantiles. `whole`: also of all keys, as None."""
        sets = "GROUPING SETS ((key, ttft_definition), (ttft_definition))"
        groups, of_all = (sets, "grouping(key)") if whole else ("key, ttft_definition", "0")
        rows = self._connection.rows(
            f"SELECT {key} AS key, ttft_definition, count(), {_QUANTILES}(assumeNotNull(ttft_ns)), {of_all}"
            f" FROM requests FINAL WHERE {condition.sql} AND {ANSWERED} AND ttft_ns IS NOT NULL GROUP BY {groups}",
            condition.parameters,
        )
        by_key: dict[Any, dict[str, tuple[int, Quantiles]]] = defaultdict(dict)
        for value, definition, count, quantiles, is_whole in rows:
            by_key[None if is_whole else value][definition] = (count, ms(quantiles))
        return by_key
