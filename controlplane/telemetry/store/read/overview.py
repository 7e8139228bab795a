"""Reads the health of pools and replicas, the values of filters, and how fresh the data is."""

from collections.abc import Sequence

from controlplane.telemetry.core.query_types import Dimension, Filters, Health, ModelCost, ReplicaHealth, Window

from ..client import Connection, StorePart
from .figures import health_of
from .retained import DIMENSIONS
from .rollups import RollupReader
from .where import ANSWERED, FAILED, OWN, column, where

MAX_CHOICES = 200


class OverviewReader(StorePart):
    """Queries of the overview and the filters."""

    def __init__(self, connection: Connection, rollups: RollupReader) -> None:
        super().__init__(connection)
        self._rollups = rollups

    def health(self, window: Window, dimension: Dimension) -> list[Health]:
        """Requests, errors and p95 of each value of a dimension, by value. Values without requests in the window are absent."""
        if rolled := self._rollups.rolled(window, by=dimension):
            return health_of(rolled)
        condition = where(window)
        rows = self._connection.rows(
            f"SELECT toString({column(dimension)}) AS value, count(), countIf({FAILED}), countIf({ANSWERED}),"
            f" quantileExactInclusiveIf(0.95)(e2e_ns, {ANSWERED}), max(end_ns)"
            f" FROM requests FINAL WHERE {condition.sql} GROUP BY value ORDER BY value",
            condition.parameters,
        )
        return [
            Health(value, requests, errors, p95 / 1e6 if answered else None, newest)
            for value, requests, errors, answered, p95, newest in rows
        ]

    def replicas(self, window: Window, filters: Filters | None = None) -> list[ReplicaHealth]:
        """The attempts at each replica, by pool and replica.

        A request stored without attempts counts as one attempt at its replica. Cached and coalesced requests are left out.
        """
        condition = where(window, filters)
        listed = (
            "arrayMap((pool, replica, outcome, ns) -> (toString(pool), toString(replica), toString(outcome), ns),"
            " attempt_pool, attempt_replica, attempt_outcome, attempt_ns)"
        )
        single = (
            f"[(toString(pool), toString(replica), multiIf({ANSWERED}, 'ok', {FAILED}, 'error', 'cancelled'), e2e_ns)]"
        )
        rows = self._connection.rows(
            "SELECT made.1 AS its_pool, made.2 AS its_replica, count(), countIf(made.3 = 'error'), countIf(made.3 = 'ok') AS answered,"
            " quantileExactInclusiveIf(0.95)(made.4, made.3 = 'ok'), max(end_ns), sum(made.4) FROM"
            f" (SELECT end_ns, arrayJoin(if(empty(attempt_replica), {single}, {listed})) AS made"
            f" FROM requests FINAL WHERE {condition.sql} AND {OWN})"
            " WHERE its_replica != '' GROUP BY its_pool, its_replica ORDER BY its_pool, its_replica",
            condition.parameters,
        )
        return [
            ReplicaHealth(replica, attempts, errors, p95 / 1e6 if answered else None, newest, pool, spent / 1e6)
            for pool, replica, attempts, errors, answered, p95, newest, spent in rows
        ]

    def costs(self, window: Window, filters: Filters | None = None) -> list[ModelCost]:
        """Of answers that a replica made, by model, those with the most tokens first."""
        condition = where(window, filters)
        rows = self._connection.rows(
            "SELECT toString(model) AS of_model, sum(ifNull(cost_usd, 0)),"
            " sumIf(ifNull(output_tokens, 0), cost_usd IS NOT NULL) AS tokens, countIf(cost_usd IS NULL),"
            " sumIf(ifNull(prompt_tokens, 0), cost_usd IS NOT NULL)"
            f" FROM requests FINAL WHERE {condition.sql} AND {ANSWERED} AND {OWN} GROUP BY of_model ORDER BY tokens DESC, of_model",
            condition.parameters,
        )
        return [ModelCost(*row) for row in rows]

    def values(self, window: Window, dimensions: Sequence[Dimension]) -> dict[Dimension, list[str]]:
        """The values of each filter, the most frequent first, at most 200. The empty (unknown) one is left out."""
        rolled = self._rollups.counts(window, [name for name in dimensions if name in DIMENSIONS]) or {}
        single = self._rollups.stored_by(where(window), [name for name in dimensions if name not in rolled])
        counted = {name: (rolled | single)[name] for name in dimensions}
        return {
            name: sorted(filter(None, counts), key=lambda value: (-counts[value], value))[:MAX_CHOICES]
            for name, counts in counted.items()
        }

    def newest(self) -> int | None:
        """When the last request ended, of those that began in the hour before the newest one, ns since the epoch; None in an empty store.

        The index of the parts has the newest start, so this reads one hour.
        """
        [(count, newest)] = self._connection.rows(
            "SELECT count(), max(end_ns) FROM requests FINAL"
            " WHERE entry_start_ns >= (SELECT greatest(max(entry_start_ns), 3600000000000) FROM requests) - 3600000000000"
        )
        return newest if count else None
