"""Small questions about the whole: who is healthy, what there is to choose from, how fresh the data is."""

from controlplane.telemetry.core.query_types import Dimension, Health, ReplicaHealth, Window

from ..client import Connection
from .where import ANSWERED, FAILED, OWN, column, where

MAX_CHOICES = 200


class OverviewReader(Connection):
    """What the overview and the filters show."""

    def health(self, window: Window, dimension: Dimension) -> list[Health]:
        """What each value of a dimension did, by value. Values without requests in the window are absent."""
        condition = where(window)
        found = self.rows(
            f"SELECT toString({column(dimension)}) AS value, count(), countIf({FAILED}), countIf({ANSWERED}),"
            f" quantileExactInclusiveIf(0.95)(e2e_ns, {ANSWERED}), max(end_ns)"
            f" FROM requests FINAL WHERE {condition.sql} GROUP BY value ORDER BY value",
            condition.parameters,
        )
        return [
            Health(value, requests, errors, p95 / 1e6 if answered else None, newest)
            for value, requests, errors, answered, p95, newest in found
        ]

    def replicas(self, window: Window) -> list[ReplicaHealth]:
        """What each replica did for each pool, by both, as its attempts tell. Requests written without attempts count as one each, at the
        replica that they name; those that waited for another's are the other's."""
        condition = where(window)
        booked = (
            "arrayMap((pool, replica, outcome, ns) -> (toString(pool), toString(replica), toString(outcome), ns),"
            " attempt_pool, attempt_replica, attempt_outcome, attempt_ns)"
        )
        whole = (
            f"[(toString(pool), toString(replica), multiIf({ANSWERED}, 'ok', {FAILED}, 'error', 'cancelled'), e2e_ns)]"
        )
        found = self.rows(
            "SELECT one.1 AS its_pool, one.2 AS its_replica, count(), countIf(one.3 = 'error'), countIf(one.3 = 'ok') AS answered,"
            " quantileExactInclusiveIf(0.95)(one.4, one.3 = 'ok'), max(end_ns) FROM"
            f" (SELECT end_ns, arrayJoin(if(empty(attempt_replica), {whole}, {booked})) AS one"
            f" FROM requests FINAL WHERE {condition.sql} AND {OWN})"
            " WHERE its_replica != '' GROUP BY its_pool, its_replica ORDER BY its_pool, its_replica",
            condition.parameters,
        )
        return [
            ReplicaHealth(replica, attempts, errors, p95 / 1e6 if answered else None, newest, pool)
            for pool, replica, attempts, errors, answered, p95, newest in found
        ]

    def oldest(self) -> int | None:
        """When the first request that is kept began, ns since the epoch; None in an empty store. The parts' own index knows."""
        [(count, oldest)] = self.rows("SELECT count(), min(entry_start_ns) FROM requests")
        return oldest if count else None

    def values(self, window: Window, dimension: Dimension) -> list[str]:
        """The values a filter may choose from, the most frequent first, at most 200; unknown (empty) is left out."""
        condition = where(window)
        found = self.rows(
            f"SELECT toString({column(dimension)}) AS value FROM requests WHERE {condition.sql} AND withdrawn = 0 AND value != ''"
            f" GROUP BY value ORDER BY count() DESC, value LIMIT {MAX_CHOICES}",
            condition.parameters,
        )
        return [value for (value,) in found]

    def newest(self) -> int | None:
        """When the last request ended, ns since the epoch, of those begun in the hour before the newest; None in an empty store.

        The newest begin is in the parts' own index, so this reads an hour, not the table.
        """
        [(count, newest)] = self.rows(
            "SELECT count(), max(end_ns) FROM requests FINAL"
            " WHERE entry_start_ns >= (SELECT greatest(max(entry_start_ns), 3600000000000) FROM requests) - 3600000000000"
        )
        return newest if count else None
