"""Reads what the cache answered, and what the same requests take without it."""

from controlplane.telemetry.core.cache_rows import CachePoint, CacheRow, CacheStep
from controlplane.telemetry.core.query_types import Filters, Window

from ..client import StorePart
from .where import ANSWERED, chart_step_ns, where

STEPS = ("cache.lookup", "cache.embed", "cache.search", "cache.verify")
"""Spans of the gateway that make up the stage `cache`."""
MAX_ROWS = 20_000
_BEGUN = f"({ANSWERED} AND cache_outcome = 'semantic' AND notEmpty(attempt_replica))"
_COUNTED = f"{ANSWERED} AND prompt_tokens IS NOT NULL AND output_tokens IS NOT NULL AND NOT {_BEGUN}"


class CacheReader(StorePart):
    def rows(self, window: Window, filters: Filters | None = None) -> list[CacheRow]:
        """Requests by model, rule, pool, operation, outcome of the cache, and length of the answer."""
        condition = where(window, filters)
        return [
            CacheRow(*row)
            for row in self._connection.rows(
                "SELECT toString(model) AS of_model, toString(policy_rule) AS rule, toString(pool) AS of_pool,"
                " toString(operation) AS of_operation, toString(cache_outcome) AS outcome,"
                " ifNull(toInt16(ceil(log2(output_tokens + 1))), -1) AS length,"
                f" count(), countIf({ANSWERED}), sumIf(e2e_ns, {ANSWERED}),"
                f" countIf({_COUNTED}), sumIf(ifNull(prompt_tokens, 0), {_COUNTED}), sumIf(ifNull(output_tokens, 0), {_COUNTED}),"
                f" countIf({_BEGUN})"
                f" FROM requests FINAL WHERE {condition.sql} AND cache_outcome != ''"
                " GROUP BY of_model, rule, of_pool, of_operation, outcome, length"
                f" ORDER BY of_model, rule, of_pool, of_operation, outcome, length LIMIT {MAX_ROWS}",
                condition.parameters,
            )
        ]

    def series(self, window: Window, filters: Filters | None, step_s: int) -> list[CachePoint]:
        """Requests by step and outcome, by time."""
        step_ns, condition = chart_step_ns(window, step_s), where(window, filters)
        return [
            CachePoint(*row)
            for row in self._connection.rows(
                "SELECT intDiv(entry_start_ns, {step:UInt64}) * {step:UInt64} AS start, toString(cache_outcome) AS outcome, count()"
                f" FROM requests FINAL WHERE {condition.sql} AND cache_outcome != '' GROUP BY start, outcome ORDER BY start, outcome",
                {**condition.parameters, "step": step_ns},
            )
        ]

    def steps(self, window: Window) -> list[CacheStep]:
        """How long each step of the stage `cache` took, whatever came of it, in the order in which a request passes them."""
        rows = self._connection.rows(
            "SELECT toString(name) AS step, count(), quantile(0.5)(duration_ns), quantile(0.95)(duration_ns) FROM spans"
            " WHERE start_ns >= {from_ns:UInt64} AND start_ns < {to_ns:UInt64} AND name IN {steps:Array(String)} GROUP BY step",
            {"from_ns": window.from_ns, "to_ns": window.to_ns, "steps": list(STEPS)},
        )
        by_name = {name: CacheStep(name, count, p50 / 1e6, p95 / 1e6) for name, count, p50, p95 in rows}
        return [by_name[name] for name in STEPS if name in by_name]
