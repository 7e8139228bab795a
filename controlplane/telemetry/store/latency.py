"""Latency figures out of request rows: exact quantiles, shares of time, and the stacks of the chart.

Definitions (each is tested against numpy on the same rows):

- Quantiles are linear between the two nearest ranks (`quantileExactInclusive`; numpy's default method).
- An error is a request that ended in `error` or was `rejected`; a client's cancellation is none.
- `share` of a stage: its time over all requests, divided by their end-to-end time.
- `share_above_median`: let A be the requests whose E2E is above the median and M the middle fifth, those whose E2E lies
  between the 0.4 and 0.6 quantiles, both included (all requests, where none lies there: fewer than five). A stage's share
  is (its mean in A - its mean in M) / (mean E2E in A - mean E2E in M); all are 0 where no request is above the median.
- A stack's band around a quantile: requests whose E2E is between those at ranks floor(low n) and floor(high n), from 0, both
  included: 0.40..0.60 for p50, 0.925..0.975 for p95, 0.985..0.995 for p99. It always holds at least one request.

A report is four queries: two independent ones run beside the two that follow one another, so that a page waits for half.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.telemetry.ledger.row import STAGES

from .client import Connection
from .errors import StoreInputError
from .types import (
    Dimension,
    Filters,
    Group,
    LatencyPoint,
    LatencyReport,
    Quantiles,
    StageFigures,
    StageShare,
    Totals,
    Window,
)
from .where import Where, column, where

PARTS = {**{stage: f"stage_{stage}" for stage in STAGES}, "unattributed": "unattributed_ns"}
"""Column by part of a request's time."""

BANDS = {"p50": (0.4, 0.6), "p95": (0.925, 0.975), "p99": (0.985, 0.995)}
FAILED = "status IN ('error', 'rejected')"
MAX_POINTS = 5000
EMPTY = LatencyReport(requests=0, errors=0, e2e_ms=None, ttft_ms={}, ttft_count={}, stages={}, newest_ns=None)
NOTHING = Totals(requests=0, errors=0, e2e_ms=None, newest_ns=None)
"""No request in the window."""

_QUANTILES = "quantilesExactInclusive(0.5, 0.95, 0.99)"
_NS_PER_MS = 1e6
_Ttft = Mapping[Any, dict[str, tuple[int, Quantiles]]]


class LatencyReader(Connection):
    """What the latency page shows."""

    def latency(self, window: Window, filters: Filters | None = None) -> LatencyReport:
        """One report over all requests of the window."""
        return dict(self._reports("''", where(window, filters))).get("", EMPTY)

    def latency_by(
        self, window: Window, filters: Filters | None, dimension: Dimension
    ) -> list[tuple[str, LatencyReport]]:
        """A report for each value of a dimension, the most frequent first."""
        return self._reports(f"toString({column(dimension)})", where(window, filters))

    def latency_series(self, window: Window, filters: Filters | None, step_s: int) -> list[LatencyPoint]:
        """A point for each step that has requests, in order of time; steps begin at multiples of `step_s` since the epoch."""
        if step_s < 1 or (window.to_ns - window.from_ns) // (step_s * 10**9) > MAX_POINTS:
            raise StoreInputError(
                f"step {step_s} s is out of range; use 1 or more, and at most {MAX_POINTS} steps a chart"
            )
        condition = where(window, filters)
        condition.parameters["step_ns"] = step_s * 10**9
        key = "intDiv(entry_start_ns, {step_ns:UInt64})"
        ttft = self.beside(self._ttft, key, condition)
        edges = ", ".join(str(edge) for band in BANDS.values() for edge in band)
        points = self.rows(
            f"SELECT {key} AS key, count(), countIf({FAILED}), {_QUANTILES}(e2e_ns), quantilesExact({edges})(e2e_ns)"
            f" FROM requests FINAL WHERE {condition.sql} GROUP BY key ORDER BY key",
            condition.parameters,
        )
        stacks = self._bands(key, condition, {row[0]: row[4] for row in points})
        definitions = ttft.result()
        return [
            LatencyPoint(
                start_ns=key * step_s * 10**9,
                requests=count,
                errors=errors,
                e2e_ms=_ms(e2e),
                ttft_ms={name: quantiles for name, (_, quantiles) in definitions.get(key, {}).items()},
                stack_ms=_stacks(stacks[key]),
            )
            for key, count, errors, e2e, _ in points
            if key in stacks
        ]

    def _bands(self, key: str, condition: Where, cuts: Mapping[int, Sequence[int]]) -> Mapping[int, Sequence[float]]:
        """By step: mean ns by band, then by part. `cuts` has each step's bands, lower and upper E2E of one after the other."""
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
        rows = self.rows(
            f"SELECT {key} AS key, [{means}] FROM (SELECT *, {within} FROM requests FINAL WHERE {condition.sql})"
            f" WHERE {' OR '.join(BANDS)} GROUP BY key",
            parameters,
        )
        return dict(rows)

    def totals(self, window: Window, filters: Filters | None = None) -> Totals:
        """How many, how slow, how fresh."""
        found = self._totals("''", where(window, filters)).get("")
        return Totals(found.requests, found.errors, found.e2e_ms, found.newest_ns) if found else NOTHING

    def groups(self, window: Window, filters: Filters | None, dimension: Dimension) -> dict[str, Group]:
        """Where the time went for each value of a dimension, the most frequent first: a report without quantiles of single stages."""
        key, condition = f"toString({column(dimension)})", where(window, filters)
        totals = self._totals(key, condition)
        sums = self._sums(key, condition, totals)
        return {
            value: Group(found.requests, found.errors, found.e2e_ms, _shares(sums[value]))
            for value, found in totals.items()
            if value in sums  # a row may have come between the queries
        }

    def _reports(self, key: str, condition: Where) -> list[tuple[str, LatencyReport]]:
        ttft = self.beside(self._ttft, key, condition)
        by_part = self.beside(self._by_part, key, condition)
        totals = self._totals(key, condition)
        sums = self._sums(key, condition, totals)
        stages, definitions = by_part.result(), ttft.result()
        return [
            (value, _report(found, stages[value], sums[value], definitions.get(value, {})))
            for value, found in totals.items()
            if value in sums and value in stages  # a row may have come between the queries
        ]

    def _totals(self, key: str, condition: Where) -> dict[str, "_Total"]:
        """By key, the most frequent first."""
        rows = self.rows(
            f"SELECT {key} AS key, count() AS n, countIf({FAILED}), max(end_ns),"
            f" quantilesExactInclusive(0.5, 0.95, 0.99, 0.4, 0.6)(e2e_ns)"
            f" FROM requests FINAL WHERE {condition.sql} GROUP BY key ORDER BY n DESC, key",
            condition.parameters,
        )
        return {row[0]: _Total(*row[1:]) for row in rows}

    def _by_part(self, key: str, condition: Where) -> dict[str, dict[str, Quantiles]]:
        """By key, by part."""
        rows = self.rows(
            f"SELECT {key} AS key, [{', '.join(f'{_QUANTILES}({part})' for part in PARTS.values())}]"
            f" FROM requests FINAL WHERE {condition.sql} GROUP BY key",
            condition.parameters,
        )
        return {value: dict(zip(PARTS, map(_ms, quantiles), strict=True)) for value, quantiles in rows}

    def _sums(self, key: str, condition: Where, totals: Mapping[str, "_Total"]) -> Mapping[str, "_Sums"]:
        """By key: how many requests, and the time in each part, of those below, in and above the middle."""
        cut = {
            name: f"transform({key}, {{cut_keys:Array(String)}}, {{cut_{name}:Array(Float64)}}, toFloat64(0))"
            for name in ("median", "low", "high")
        }
        rows = self.rows(
            f"SELECT {key} AS key,"
            f" multiIf(e2e_ns BETWEEN {cut['low']} AND {cut['high']}, if(e2e_ns > {cut['median']}, 'both', 'middle'),"
            f" e2e_ns > {cut['median']}, 'above', 'below') AS class,"
            f" count(), [{', '.join(f'sum({part})' for part in PARTS.values())}]"
            f" FROM requests FINAL WHERE {condition.sql} GROUP BY key, class",
            {
                **condition.parameters,
                "cut_keys": list(totals),
                "cut_median": [one.e2e_ns[0] for one in totals.values()],
                "cut_low": [one.e2e_ns[3] for one in totals.values()],
                "cut_high": [one.e2e_ns[4] for one in totals.values()],
            },
        )
        sums: dict[str, _Sums] = defaultdict(dict)
        for value, name, count, parts in rows:
            sums[value][name] = (count, parts)
        return sums

    def _ttft(self, key: str, condition: Where) -> _Ttft:
        """By key, by definition: how many requests have a TTFT, and its quantiles."""
        rows = self.rows(
            f"SELECT {key} AS key, ttft_definition, count(), {_QUANTILES}(assumeNotNull(ttft_ns))"
            f" FROM requests FINAL WHERE {condition.sql} AND ttft_ns IS NOT NULL GROUP BY key, ttft_definition",
            condition.parameters,
        )
        found: dict[Any, dict[str, tuple[int, Quantiles]]] = defaultdict(dict)
        for value, definition, count, quantiles in rows:
            found[value][definition] = (count, _ms(quantiles))
        return found


@dataclass(frozen=True, slots=True)
class _Total:
    requests: int
    errors: int
    newest_ns: int
    e2e_ns: Sequence[float]  # p50, p95, p99; and the 0.4 and 0.6 quantiles

    @property
    def e2e_ms(self) -> Quantiles:
        return _ms(self.e2e_ns[:3])


_Sums = dict[str, tuple[int, Sequence[int]]]
"""By class ("below", "middle", "above", and "both" for the upper half of the middle): count, ns in each of PARTS."""


def _ms(nanoseconds: Sequence[float]) -> Quantiles:
    p50, p95, p99 = (value / _NS_PER_MS for value in nanoseconds)
    return Quantiles(p50, p95, p99)


def _stacks(means: Sequence[float]) -> dict[str, dict[str, float]]:
    """`means` are ns by band, then by part."""
    size = len(PARTS)
    return {
        band: {part: value / _NS_PER_MS for part, value in zip(PARTS, means[at * size : (at + 1) * size], strict=True)}
        for at, band in enumerate(BANDS)
    }


def _mean(sums: _Sums, *classes: str) -> list[float] | None:
    """Mean ns by part over some classes; None where no request is in them."""
    chosen = [sums[name] for name in classes if name in sums]
    count = sum(number for number, _ in chosen)
    return [sum(parts) / count for parts in zip(*(parts for _, parts in chosen), strict=True)] if count else None


def _excess(sums: _Sums) -> list[float]:
    """By part, its share of what requests above the median take longer than the middle fifth."""
    above, middle = _mean(sums, "above", "both"), _mean(sums, "middle", "both") or _mean(sums, *sums)
    if above is None or middle is None:
        return [0.0] * len(PARTS)
    more = [high - usual for high, usual in zip(above, middle, strict=True)]
    return [part / sum(more) for part in more] if sum(more) else [0.0] * len(PARTS)


def _shares(sums: _Sums) -> dict[str, StageShare]:
    means = _mean(sums, *sums) or [0.0] * len(PARTS)
    whole = sum(means)
    return {
        name: StageShare(mean / _NS_PER_MS, mean / whole if whole else 0.0, above)
        for name, mean, above in zip(PARTS, means, _excess(sums), strict=True)
    }


def _report(
    total: _Total, stages: Mapping[str, Quantiles], sums: _Sums, ttft: Mapping[str, tuple[int, Quantiles]]
) -> LatencyReport:
    return LatencyReport(
        requests=total.requests,
        errors=total.errors,
        e2e_ms=total.e2e_ms,
        ttft_ms={name: quantiles for name, (_, quantiles) in ttft.items()},
        ttft_count={name: number for name, (number, _) in ttft.items()},
        stages={
            name: StageFigures(
                stages[name].p50, stages[name].p95, stages[name].p99, of.mean_ms, of.share, of.share_above_median
            )
            for name, of in _shares(sums).items()
        },
        newest_ns=total.newest_ns,
    )
