"""Compares an objective's bad requests with its good ones: since when, how much, where their time went, and which they are.

A `Cut` describes the objective: a measure with one threshold, or availability.
"""

from collections.abc import Mapping, Sequence

from controlplane.telemetry.core.objective_counts import AVAILABILITIES, CountedStep, Cut, FailedAs
from controlplane.telemetry.core.query_types import Dimension, Filters, Window
from controlplane.telemetry.explain.difference import Split
from inference.contract.stages import STAGES

from ..client import Connection, StorePart
from ..errors import StoreInputError
from ..write.arrow_columns import PARTS
from .explain import ExplainReader
from .sli_sql import bad, measured
from .where import FAILED, Where, chart_step_ns, where


class BurnedReader(StorePart):
    """Queries for the attribution of an incident."""

    def __init__(self, connection: Connection, explain: ExplainReader) -> None:
        super().__init__(connection)
        self._explain = explain

    def series(self, window: Window, filters: Filters | None, cut: Cut, step_s: int) -> list[CountedStep]:
        """Bad and counted requests of each step that has any, in order of time. Steps begin at multiples of `step_s`."""
        counted = _counted(window, filters, cut)
        counted.parameters["step_ns"] = step_ns = chart_step_ns(window, step_s)
        rows = self._connection.rows(
            f"SELECT intDiv(entry_start_ns, {{step_ns:UInt64}}) AS step, countIf({bad(cut, counted.parameters)}), count()"
            f" FROM requests FINAL WHERE {counted.sql} GROUP BY step ORDER BY step",
            counted.parameters,
        )
        return [CountedStep(step * step_ns, worse, total) for step, worse, total in rows]

    def value(self, window: Window, filters: Filters | None, cut: Cut, quantile: float) -> float | None:
        """The measure at `quantile` (0 to 1) of the counted requests, in the threshold's unit; for availability, the answered share.

        None where no request was counted.
        """
        if not 0 <= quantile <= 1:
            raise StoreInputError(f"quantile {quantile} is out of range; use 0 to 1")
        counted = _counted(window, filters, cut)
        if cut.measure in AVAILABILITIES:
            aggregate = f"1 - avg({bad(cut, counted.parameters)})"
        else:
            value = measured(cut, counted.parameters)
            aggregate = f"quantileExactInclusive({quantile:f})(toFloat64(assumeNotNull({value})))"
            counted.add(f"({value}) IS NOT NULL")
        [(count, value_at)] = self._connection.rows(
            f"SELECT count(), {aggregate} FROM requests FINAL WHERE {counted.sql}", counted.parameters
        )
        return float(value_at) if count else None

    def splits(
        self, window: Window, filters: Filters | None, cut: Cut, dimensions: Sequence[Dimension]
    ) -> tuple[Split, dict[str, dict[str, Split]]]:
        """The bad requests beside the good ones, for `controlplane.telemetry.explain`."""
        whole = _counted(window, filters, cut)
        return self._explain.sides(whole, _bad(whole, cut), dimensions, _parts(cut))

    def first_bad_ns(self, window: Window, filters: Filters | None, cut: Cut) -> int | None:
        """When the first bad request of the window began; None where there is none."""
        worse = _bad(_counted(window, filters, cut), cut)
        [(count, first)] = self._connection.rows(
            f"SELECT count(), min(entry_start_ns) FROM requests FINAL WHERE {worse.sql}", worse.parameters
        )
        return int(first) if count else None

    def errors(self, window: Window, filters: Filters | None, cut: Cut, limit: int = 3) -> list[FailedAs]:
        """How the bad requests failed, the most frequent first. Only for availability: slow requests have no error."""
        worse = _bad(_counted(window, filters, cut), cut)
        rows = self._connection.rows(
            "SELECT toString(error_type) AS type, http_status, toString(error_stage) AS stage, count() AS n, uniqExact(tenant), any(tenant)"
            f" FROM requests FINAL WHERE {worse.sql} GROUP BY type, http_status, stage ORDER BY n DESC, type, http_status, stage"
            f" LIMIT {int(limit)}",
            worse.parameters,
        )
        return [
            FailedAs(error_type, http_status, stage, requests, str(tenant) if tenants == 1 else "")
            for error_type, http_status, stage, requests, tenants, tenant in rows
        ]

    def traces(self, window: Window, filters: Filters | None, cut: Cut, limit: int = 3) -> list[str]:
        """Trace ids of the worst requests, the worst first."""
        worst = _bad(_counted(window, filters, cut), cut)
        rows = self._connection.rows(
            f"SELECT trace_id FROM requests FINAL WHERE {worst.sql}"
            f" ORDER BY {measured(cut, worst.parameters)} DESC, trace_id LIMIT {int(limit)}",
            worst.parameters,
        )
        return [trace.hex() for (trace,) in rows]


def _counted(window: Window, filters: Filters | None, cut: Cut) -> Where:
    condition = where(window, filters)
    condition.add(f"({bad(cut, condition.parameters)}) IS NOT NULL")
    return condition


def _bad(counted: Where, cut: Cut) -> Where:
    condition = counted.copy()
    condition.add(bad(cut, condition.parameters))
    return condition


def _parts(cut: Cut) -> Mapping[str, str]:
    """SQL of each stage's part in the measure. TTFT has prefill as its model time, and no egress.

    For availability, the stage that each request failed in.
    """
    if cut.measure in AVAILABILITIES:
        stage_names = ", ".join(f"'{stage}'" for stage in STAGES)
        stages = {stage: f"toUInt64({FAILED} AND error_stage = '{stage}')" for stage in STAGES}
        return {**stages, "unattributed": f"toUInt64({FAILED} AND error_stage NOT IN ({stage_names}))"}
    if cut.measure == "ttft":
        return {**PARTS, "model": "prefill_ns", "egress": "toUInt64(0)"}
    if cut.measure == "itl":
        return {"model": "decode_ns"}
    if cut.measure == "cost":
        return {"model": "toUInt64(ifNull(cost_usd, 0) * 1e9)"}
    return PARTS if cut.measure == "e2e" else {cut.measure: PARTS[cut.measure]}
