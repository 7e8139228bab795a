"""Compares the requests of two pools."""

from collections.abc import Iterator, Mapping, Sequence

from controlplane.telemetry.core.canary_rows import SCORE, CanaryReading, CanaryRow, MeasuredRow
from controlplane.telemetry.core.objective_counts import Cut
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.ledger.row import RATE_LIMITED

from ...client import StorePart
from ...errors import StoreInputError
from ..sli_sql import measured
from ..where import ANSWERED, CANCELLED, OWN, Where, where

FIRST_POOL = "toString(if(empty(attempt_pool), pool, attempt_pool[1]))"
"""The pool that a request was first sent to. Where another one answered, the first one failed it."""


def _sent_to(model: str, pools: Sequence[str], from_ns: int, to_ns: int) -> Where:
    """The requests of a model that were first sent to one of the pools."""
    condition = where(Window(from_ns, to_ns), {"model": (model,)})
    condition.add(
        f"{OWN} AND error_type != {{rate_limited:String}} AND {FIRST_POOL} IN {{pools:Array(String)}}",
        rate_limited=RATE_LIMITED,
        pools=list(pools),
    )
    return condition


class CanaryReader(StorePart):
    """Raises StoreUnavailableError or StoreError."""

    def reading(
        self,
        model: str,
        baseline: str,
        candidate: str,
        starts_ns: Sequence[int],
        to_ns: int,
        quantile: float,
        tolerance: float,
        measures: Mapping[str, tuple[float, float]] = {},
    ) -> CanaryReading:
        """Counts the requests of a model by the pool that they were first sent to, by minute and stratum.

        `starts_ns` are the ascending starts of the strata; the last one ends at `to_ns`. Answers of the cache and of other requests in
        flight, and requests over a limit, are not counted. Of the cancelled ones those are that had waited longer than the quantile.
        `measures` are what else is counted, with its quantile and tolerance, of the answered requests that have it.
        """
        if not starts_ns or list(starts_ns) != sorted(starts_ns):
            raise StoreInputError(f"starts_ns {list(starts_ns)} are not ascending: give the start of each stratum")
        condition = _sent_to(model, (baseline, candidate), starts_ns[0], max(to_ns, starts_ns[0]))
        condition.parameters["starts_ns"] = list(starts_ns)
        requests = (
            f"SELECT {FIRST_POOL} AS arm, arrayCount(start -> start <= entry_start_ns, {{starts_ns:Array(UInt64)}}) AS stratum,"
            f" e2e_ns, intDiv(entry_start_ns, 60000000000) AS minute, {ANSWERED} AND toString(pool) = arm AS ok, {CANCELLED} AS left"
            f" FROM requests FINAL WHERE {condition.sql}"
        )
        quantiles = self._connection.rows(
            f"SELECT toUInt32(stratum), arm, quantileExact({float(quantile)!r})(e2e_ns) FROM ({requests})"
            " WHERE ok GROUP BY stratum, arm",
            condition.parameters,
        )
        edges = {stratum - 1: int(edge) for stratum, arm, edge in quantiles if arm == baseline}
        condition.parameters["edges"] = [edges.get(index, 2**64 - 1) for index in range(len(starts_ns))]
        condition.parameters["far_edges"] = [
            min(int(edges.get(index, 2**64 - 1) * (1 + tolerance)), 2**64 - 1) for index in range(len(starts_ns))
        ]
        counts = self._connection.rows(
            "SELECT toUInt32(stratum) - 1, arm, toUInt64(minute),"
            " countIf(NOT left OR slow), countIf(NOT ok AND NOT left), countIf(ok OR (left AND slow)), countIf((ok OR left) AND slow),"
            " countIf((ok OR left) AND e2e_ns > arrayElement({far_edges:Array(UInt64)}, stratum))"
            f" FROM (SELECT *, e2e_ns > arrayElement({{edges:Array(UInt64)}}, stratum) AS slow FROM ({requests}))"
            " GROUP BY stratum, arm, minute ORDER BY stratum, arm, minute",
            condition.parameters,
        )
        return CanaryReading(
            tuple(CanaryRow(int(stratum), arm, *map(int, numbers)) for stratum, arm, *numbers in counts),
            {(stratum - 1, arm): int(value) / 1e6 for stratum, arm, value in quantiles},
            tuple(
                row for name, levels in measures.items() for row in self._measured(name, levels, baseline, condition)
            ),
        )

    def _measured(
        self, name: str, levels: tuple[float, float], baseline: str, condition: Where
    ) -> Iterator[MeasuredRow]:
        """Of the requests of `condition`, whose parameters have the starts of strata."""
        quantile, tolerance = levels
        parameters = {**condition.parameters, "baseline": baseline}
        source, score = "requests FINAL", name.removeprefix(SCORE)
        if score == name:
            value = measured(Cut(name, ttft_definition="gateway"), parameters)  # whose pools these are
        else:  # less is worse
            parameters["score"], value = score, "-score"
            source += (
                " INNER JOIN (SELECT trace_id, argMax(value, at_ns) AS score FROM scores"
                " WHERE name = {score:String} GROUP BY trace_id) AS scored USING trace_id"
            )
        rows = self._connection.rows(
            f"WITH requests AS (SELECT {FIRST_POOL} AS arm, toFloat64({value}) AS value,"
            " arrayCount(start -> start <= entry_start_ns, {starts_ns:Array(UInt64)}) AS stratum"
            f" FROM {source} WHERE {condition.sql} AND {ANSWERED} AND toString(pool) = arm AND value IS NOT NULL)"
            " SELECT toUInt32(stratum) - 1, arm, count(), countIf(value > edge),"
            f" countIf(value > edge + abs(edge) * {float(tolerance)!r})"
            f" FROM requests INNER JOIN (SELECT stratum, quantileExact({float(quantile)!r})(value) AS edge FROM requests"
            " WHERE arm = {baseline:String} GROUP BY stratum) AS edges USING stratum GROUP BY stratum, arm ORDER BY stratum, arm",
            parameters,
        )
        for stratum, arm, *numbers in rows:
            yield MeasuredRow(name, int(stratum), arm, *map(int, numbers))

    def requests(self, model: str, pool: str, from_ns: int, to_ns: int) -> int:
        """How many requests of a model that began in this time were first sent to a pool, with those that `canary` leaves out because
        their clients left.
        """
        condition = _sent_to(model, (pool,), from_ns, to_ns)
        rows = self._connection.rows(f"SELECT count() FROM requests FINAL WHERE {condition.sql}", condition.parameters)
        return int(rows[0][0])
