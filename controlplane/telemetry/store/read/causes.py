"""Reads the figures for the rules of known causes: pools by replica, waits of short prompts, and means and growth of metrics."""

from collections.abc import Sequence

from controlplane.telemetry.core.query_types import FROM_CACHE, Filters, Window
from controlplane.telemetry.explain.figures import AttemptFigures, Measured, MixFigures, PoolFigures

from ..client import StorePart
from ..write.arrow_columns import PARTS
from .sample import sampled, within_stretches
from .where import ANSWERED, FAILED, OWN, where

LONG_TOKENS = 4096
"""From this prompt length on, a prefill delays other requests noticeably on today's GPUs."""
SHORT_TOKENS = 1024
MAX_GROUPS = 20_000

_TOKENIZED = "stage_tokenizer > 0 AND prompt_tokens > 0"
_GENERATED = f"{ANSWERED} AND {OWN} AND stage_model > 0 AND output_tokens > 0"
_REFUSED = f"{FAILED} AND replica = '' AND error_stage = 'model' AND http_status = 503"
"""Requests that failed at the model without being sent to a replica: none was up."""

_GROUPED = ("pool", "model", "region", "replica")
_COLD = f"cold_start AND {OWN} AND {ANSWERED}"
_FROM_CACHE = f"cache_outcome IN {FROM_CACHE}"
_FIGURES = {
    "requests": f"countIf({ANSWERED})",
    "e2e_ns": f"sumIf(e2e_ns, {ANSWERED})",
    "stage_ns": f"[{', '.join(f'sumIf({part}, {ANSWERED})' for part in PARTS.values())}]",
    "own": f"countIf({OWN} AND {ANSWERED})",
    "own_failed": f"countIf({OWN} AND {FAILED})",
    "failed": f"countIf({FAILED})",
    "refused": f"countIf({_REFUSED})",
    "own_e2e_ns": f"sumIf(e2e_ns, {OWN} AND {ANSWERED})",
    "own_network_ns": f"sumIf(stage_network, {OWN} AND {ANSWERED})",
    "cold": f"countIf({_COLD})",
    "cold_e2e_ns": f"sumIf(e2e_ns, {_COLD})",
    "cache_hits": f"countIf({_FROM_CACHE})",
    "cache_lookups": f"countIf({_FROM_CACHE} OR cache_outcome = 'miss')",
    "cache_skipped": "countIf(cache_outcome = 'skipped')",
    "tokenizer_ns": f"sumIf(stage_tokenizer, {_TOKENIZED})",
    "tokenized": f"sumIf(ifNull(prompt_tokens, 0), {_TOKENIZED})",
    "model_ns": f"sumIf(stage_model, {_GENERATED})",
    "output_tokens": f"sumIf(ifNull(output_tokens, 0), {_GENERATED})",
}
"""SQL of each figure of `PoolFigures`."""


class CauseReader(StorePart):
    """Queries for known causes."""

    def pool_figures(self, window: Window, filters: Filters | None = None, level: int = 1) -> list[PoolFigures]:
        """Of every pool that has a request of the filters: all its requests in the window, by model, region and replica.

        `level`: of a sample of one request in so many, here and below (`ExplainReader.one_in`).
        """
        condition = sampled(where(window), window, level)
        if filters:
            filtered = where(window, filters)
            condition.parameters |= filtered.parameters
            condition.add(f"pool IN (SELECT pool FROM {condition.table} WHERE {filtered.sql} AND withdrawn = 0)")
        rows = self._connection.rows(
            f"SELECT {', '.join(f'toString({name})' for name in _GROUPED)}, {', '.join(_FIGURES.values())}"
            f" FROM {condition.table} FINAL WHERE {condition.sql} AND pool != '' GROUP BY {', '.join(_GROUPED)}"
            f" ORDER BY count() DESC LIMIT {MAX_GROUPS}",
            condition.parameters,
        )
        figures = [dict(zip((*_GROUPED, *_FIGURES), row, strict=True)) for row in rows]
        return [PoolFigures(**each | {"stage_ns": dict(zip(PARTS, each["stage_ns"], strict=True))}) for each in figures]

    def attempt_figures(self, window: Window, pools: Sequence[str], level: int = 1) -> list[AttemptFigures]:
        """Of each pool, by replica: all attempts, the failed ones, and the model time of those that answered."""
        if not pools:
            return []
        condition = sampled(where(window), window, level)
        rows = self._connection.rows(
            "SELECT toString(attempt.1) AS its_pool, toString(attempt.2) AS its_replica, count(), countIf(attempt.3 = 'error'),"
            " sumIf(attempt.4, attempt.3 = 'ok' AND tokens > 0), sumIf(tokens, attempt.3 = 'ok') FROM"
            " (SELECT ifNull(output_tokens, 0) AS tokens, arrayJoin(arrayZip(attempt_pool, attempt_replica, attempt_outcome,"
            f" attempt_model_ns)) AS attempt FROM {condition.table} FINAL WHERE {condition.sql} AND {OWN})"
            " WHERE attempt.1 IN {pools:Array(String)} GROUP BY its_pool, its_replica ORDER BY its_pool, its_replica",
            {**condition.parameters, "pools": list(pools)},
        )
        return [AttemptFigures(*row) for row in rows]

    def prompt_mixes(self, window: Window, pools: Sequence[str], level: int = 1) -> dict[str, MixFigures]:
        """Of each pool: how long prompts of less than SHORT_TOKENS waited in the queue, with and without a prompt of at least LONG_TOKENS
        in prefill on their replica when their wait began.

        A sample is of parts of the time, because what a prompt waits behind are the requests before it.
        """
        if not pools:
            return {}
        condition = where(window, {"pool": tuple(pools)})
        within_stretches(condition, window, level)
        condition.add(OWN)
        condition.add("replica != ''")
        rows = self._connection.rows(
            "SELECT toString(pool), count(), countIf(long), countIf(short AND met),"
            " avgIf(queue, short AND met), avgIf(queue, short AND NOT met)"
            " FROM (SELECT pool, long, short, queue, max(until) OVER"
            " (PARTITION BY pool, replica ORDER BY at ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) > at AND NOT long AS met"
            " FROM (SELECT pool, replica, stage_queue AS queue,"
            f" ifNull(prompt_tokens, 0) >= {LONG_TOKENS} AS long, prompt_tokens < {SHORT_TOKENS} AND {ANSWERED} AS short,"
            " entry_start_ns + stage_gateway + stage_cache + stage_tokenizer AS waits, waits + queue AS begins,"
            " if(long, begins, waits) AS at, if(long, begins + if(prefill_ns > 0, prefill_ns, stage_model), 0) AS until"
            f" FROM requests FINAL WHERE {condition.sql})) GROUP BY pool",
            condition.parameters,
        )
        return {
            pool: MixFigures(
                requests=requests,
                long=long,
                short_with_long=met,
                short_with_long_queue_ns=with_long if with_long == with_long else None,  # NaN: of none
                short_alone_queue_ns=alone if alone == alone else None,
            )
            for pool, requests, long, met, with_long, alone in rows
        }

    def gauge_means(self, metrics: Sequence[str], window: Window) -> list[Measured]:
        """The mean of each series' samples in the window. Series without one are left out."""
        return self._measured(
            "SELECT series, avg(value) AS amount FROM samples FINAL WHERE {samples} GROUP BY series", metrics, window
        )

    def counter_growth(self, metrics: Sequence[str], window: Window) -> list[Measured]:
        """How much each counter grew between its samples in the window. After a reset, the whole new value counts."""
        return self._measured(
            "SELECT series, sum(multiIf(series IN (SELECT series FROM series WHERE delta AND metric IN {metrics:Array(String)}), value,"
            " isNaN(before), 0, value < before OR start_ns > started AND start_ns >= sampled_ns, value, value - before)) AS amount"
            " FROM (SELECT series, value, start_ns, lagInFrame(value, 1, nan) OVER earlier AS before,"
            " lagInFrame(start_ns) OVER earlier AS started, lagInFrame(time_ns) OVER earlier AS sampled_ns"
            " FROM samples FINAL WHERE {samples}"
            " WINDOW earlier AS (PARTITION BY series ORDER BY time_ns ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING))"
            " GROUP BY series",
            metrics,
            window,
        )

    def _measured(self, sql: str, metrics: Sequence[str], window: Window) -> list[Measured]:
        ours = "series IN (SELECT series FROM series WHERE metric IN {metrics:Array(String)})"
        inside = f"{ours} AND time_ns > {{from_ns:Int64}} AND time_ns <= {{to_ns:Int64}} AND isFinite(value)"
        rows = self._connection.rows(
            "SELECT metric, labels, amount FROM"
            " (SELECT metric, series, labels FROM series FINAL WHERE metric IN {metrics:Array(String)}) AS known"
            f" INNER JOIN ({sql.replace('{samples}', inside)}) AS figures USING series ORDER BY metric, series",
            {"metrics": list(metrics), "from_ns": window.from_ns, "to_ns": window.to_ns},
        )
        return [Measured(metric, labels, amount) for metric, labels, amount in rows]
