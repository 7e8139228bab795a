"""Small questions about the whole: who is healthy, what there is to choose from, how fresh the data is."""

from .client import Connection
from .types import Dimension, Health, Window
from .where import FAILED, column, where

MAX_CHOICES = 200


class OverviewReader(Connection):
    """What the overview and the filters show."""

    def health(self, window: Window, dimension: Dimension) -> list[Health]:
        """What each value of a dimension did, by value. Values without requests in the window are absent."""
        condition = where(window)
        found = self.rows(
            f"SELECT toString({column(dimension)}) AS value, count(), countIf({FAILED}), quantileExactInclusive(0.95)(e2e_ns), max(end_ns)"
            f" FROM requests FINAL WHERE {condition.sql} GROUP BY value ORDER BY value",
            condition.parameters,
        )
        return [Health(value, requests, errors, p95 / 1e6, newest) for value, requests, errors, p95, newest in found]

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
