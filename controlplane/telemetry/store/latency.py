"""Latency figures out of request rows: exact quantiles, shares of time, and the stacks of the chart.

Definitions (each is tested against numpy on the same rows):

- Quantiles are `quantileExactInclusive`: linear interpolation between the two nearest ranks, numpy's default method.
- An error is a request that ended in `error` or was `rejected`; a client's cancellation is not.
- `share` of a stage: its time over all requests, divided by their end-to-end time.
- `share_above_median`: let A be the requests whose E2E is above the median and M those of the middle fifth (E2E between the elements
  at ranks floor(0.4 n) and floor(0.6 n), from 0, both included). A stage's share is (mean of it in A - mean of it in M) divided by
  (mean E2E in A - mean E2E in M); all are 0 where no request is above the median.
- A stack's band around a quantile: requests whose E2E is between the elements at ranks floor(low n) and floor(high n), both included:
  0.40..0.60 for p50, 0.925..0.975 for p95, 0.985..0.995 for p99. It always holds at least one request.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from controlplane.telemetry.ledger.row import STAGES

from .client import Connection
from .errors import StoreInputError
from .types import Dimension, Filters, LatencyPoint, LatencyReport, Quantiles, StageFigures, Window
from .where import Where, column, where

PARTS = {**{stage: f"stage_{stage}" for stage in STAGES}, "unattributed": "unattributed_ns"}
"""Column by part of a request's time."""

BANDS = {"p50": (0.4, 0.6), "p95": (0.925, 0.975), "p99": (0.985, 0.995)}
FAILED = "status IN ('error', 'rejected')"
MAX_POINTS = 5000
_QUANTILES = "quantilesExactInclusive(0.5, 0.95, 0.99)"
_NS_PER_MS = 1e6


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
                f"step {step_s} s gives no chart of this window; use 1 s or more and at most {MAX_POINTS} steps"
            )
        condition = where(window, filters)
        condition.parameters["step_ns"] = step_s * 10**9
        key = "intDiv(entry_start_ns, {step_ns:UInt64})"
        ttft = self._ttft(key, condition)
        edges = [edge for band in BANDS.values() for edge in band]
        means = ", ".join(
            f"avgIf({part}, e2e_ns BETWEEN cut[{2 * band + 1}] AND cut[{2 * band + 2}])"
            for band in range(len(BANDS))
            for part in PARTS.values()
        )
        rows = self.rows(
            f"""
            SELECT key, count(), countIf({FAILED}), {_QUANTILES}(e2e_ns), [{means}]
            FROM (SELECT {key} AS key, status, e2e_ns, {", ".join(PARTS.values())} FROM requests FINAL WHERE {condition.sql}) AS r
            INNER JOIN (
                SELECT {key} AS key, quantilesExact({", ".join(map(str, edges))})(e2e_ns) AS cut
                FROM requests FINAL WHERE {condition.sql} GROUP BY key
            ) AS c USING (key)
            GROUP BY key ORDER BY key
            """,
            condition.parameters,
        )
        return [
            LatencyPoint(
                start_ns=key * step_s * 10**9,
                requests=count,
                errors=errors,
                e2e_ms=_ms(e2e),
                ttft_ms={name: quantiles for name, (_, quantiles) in ttft[key].items()},
                stack_ms={
                    quantile: {
                        part: means[index * len(PARTS) + offset] / _NS_PER_MS for offset, part in enumerate(PARTS)
                    }
                    for index, quantile in enumerate(BANDS)
                },
            )
            for key, count, errors, e2e, means in rows
        ]

    def _reports(self, key: str, condition: Where) -> list[tuple[str, LatencyReport]]:
        ttft = self._ttft(key, condition)
        parts = ", ".join(
            f"({_QUANTILES}({part}), sum({part}), sumIf({part}, e2e_ns > cut[2]), sumIf({part}, e2e_ns BETWEEN cut[1] AND cut[3]))"
            for part in PARTS.values()
        )
        rows = self.rows(
            f"""
            SELECT key, count() AS n, countIf({FAILED}), max(end_ns), {_QUANTILES}(e2e_ns),
                   countIf(e2e_ns > cut[2]), countIf(e2e_ns BETWEEN cut[1] AND cut[3]), {parts}
            FROM (SELECT {key} AS key, status, end_ns, e2e_ns, {", ".join(PARTS.values())} FROM requests FINAL WHERE {condition.sql}) AS r
            INNER JOIN (
                SELECT {key} AS key,
                       [quantileExact(0.4)(e2e_ns), quantileExactInclusive(0.5)(e2e_ns), quantileExact(0.6)(e2e_ns)] AS cut
                FROM requests FINAL WHERE {condition.sql} GROUP BY key
            ) AS c USING (key)
            GROUP BY key ORDER BY n DESC, key
            """,
            condition.parameters,
        )
        return [(row[0], _report(row[1:], ttft[row[0]])) for row in rows]

    def _ttft(self, key: str, condition: Where) -> dict[Any, dict[str, tuple[int, Quantiles]]]:
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


EMPTY = LatencyReport(
    requests=0,
    errors=0,
    e2e_ms=None,
    ttft_ms={},
    ttft_count={},
    stages={},
    newest_ns=None,
)
"""No request in the window."""


def _ms(nanoseconds: Sequence[float]) -> Quantiles:
    return Quantiles(*(value / _NS_PER_MS for value in nanoseconds))


def _report(row: Sequence[Any], ttft: dict[str, tuple[int, Quantiles]]) -> LatencyReport:
    count, errors, newest, e2e, above, middle, *parts = row
    total = sum(part[1] for part in parts)
    excess = [part[2] / above - part[3] / middle if above else 0.0 for part in parts]
    return LatencyReport(
        requests=count,
        errors=errors,
        e2e_ms=_ms(e2e),
        ttft_ms={name: quantiles for name, (_, quantiles) in ttft.items()},
        ttft_count={name: number for name, (number, _) in ttft.items()},
        stages={
            name: StageFigures(
                *(value / _NS_PER_MS for value in part[0]),
                mean_ms=part[1] / count / _NS_PER_MS,
                share=part[1] / total if total else 0.0,
                share_above_median=more / sum(excess) if sum(excess) else 0.0,
            )
            for name, part, more in zip(PARTS, parts, excess, strict=True)
        },
        newest_ns=newest,
    )
