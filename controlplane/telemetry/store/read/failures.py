"""Counts failed requests by reason."""

from controlplane.telemetry.core.query_types import Failure, Filters, Window

from ..client import Connection
from .where import FAILED, where

MAX_REASONS = 50


class FailureReader(Connection):
    """Queries of failures."""

    def failures(self, window: Window, filters: Filters | None = None, limit: int = MAX_REASONS) -> list[Failure]:
        """Failed requests by status, reason and stage, the most frequent first, at most `limit` kinds; empty where none failed."""
        condition = where(window, filters)
        rows = self.rows(
            "SELECT toString(status) AS status, toString(error_type) AS error_type, http_status, toString(error_stage) AS error_stage,"
            " count() AS n, quantileExactInclusive(0.5)(e2e_ns), max(end_ns)"
            f" FROM requests FINAL WHERE {condition.sql} AND {FAILED} GROUP BY status, error_type, http_status, error_stage"
            f" ORDER BY n DESC, status, error_type, http_status, error_stage LIMIT {int(limit)}",
            condition.parameters,
        )
        return [
            Failure(status, error_type, http_status, stage, requests, p50_ns / 1e6, newest_ns)
            for status, error_type, http_status, stage, requests, p50_ns, newest_ns in rows
        ]
