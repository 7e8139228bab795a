"""Requests that let an objective down, beside those that kept it: when they began, what they spent their time on, which they are.

What is judged, and how, is said in controlplane/slo/sli.py; here it is the same in SQL, and a test holds the two together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controlplane.telemetry.explain import Split
from controlplane.telemetry.ledger.row import STAGES

from .errors import StoreInputError
from .explain import ExplainReader
from .latency import MAX_POINTS, PARTS
from .types import Dimension, Filters, Window
from .where import Where, where

RATE_LIMITED = "rate_limit_exceeded"
MEASURED = {
    "e2e": "e2e_ns",
    "ttft": "if(ttft_definition = {ttft_definition:String}, ttft_ns, NULL)",
    "itl": "if(ifNull(output_tokens, 0) > 1, decode_ns / (output_tokens - 1), NULL)",
    **{stage: PARTS[stage] for stage in STAGES},
}
"""What is compared with the threshold, ns; NULL where it was not measured."""

_TOKENS = "(ifNull(prompt_tokens, 0) + ifNull(output_tokens, 0))"
_USD_PER_1K = f"if({_TOKENS} > 0, cost_usd / {_TOKENS} * 1000, NULL)"


@dataclass(frozen=True, slots=True)
class Judgement:
    """When a request is bad: `failed`, or one of MEASURED or `cost` (USD per 1,000 tokens) is above `threshold` (ns, or USD)."""

    measure: str
    threshold: float = 0.0
    ttft_definition: str = "gateway"

    def __post_init__(self) -> None:
        if self.measure not in (*MEASURED, "failed", "cost"):
            raise StoreInputError(f"measure {self.measure!r} is unknown; use failed, cost, {', '.join(MEASURED)}")

    @property
    def bad(self) -> str:
        """SQL: 1, 0, or NULL where the request is not counted."""
        if self.measure == "failed":
            counted = "status != 'cancelled' AND error_type != {rate_limited:String}"
            return f"if({counted}, status != 'ok', NULL)"
        over = f"({self.value}) > {{threshold:Float64}}"
        if self.measure == "cost":
            return f"if(status = 'ok', {over}, NULL)"
        waited = f"({MEASURED['ttft']})" if self.measure == "ttft" else f"({self.value})"
        if self.measure == "ttft":
            waited = f"if(ttft_ns IS NULL, e2e_ns, {waited})"
        given_up = f"if({waited} > {{threshold:Float64}}, 1, NULL)"
        return f"multiIf(status = 'cancelled', {given_up}, status = 'ok', {over}, NULL)"

    @property
    def value(self) -> str:
        """SQL of what is compared."""
        return _USD_PER_1K if self.measure == "cost" else MEASURED.get(self.measure, "e2e_ns")

    @property
    def parts(self) -> Mapping[str, str]:
        """What the excess is made of, by stage. Up to the first token, prefill is all of the model, and egress comes after.
        Of failures, the stage that each failed in."""
        if self.measure == "failed":
            stages = {stage: f"toUInt64(({self.bad}) = 1 AND error_stage = '{stage}')" for stage in STAGES}
            known = ", ".join(f"'{stage}'" for stage in STAGES)
            return {**stages, "unattributed": f"toUInt64(({self.bad}) = 1 AND error_stage NOT IN ({known}))"}
        if self.measure == "ttft":
            return {**PARTS, "model": "prefill_ns", "egress": "toUInt64(0)"}
        if self.measure == "itl":
            return {"model": "decode_ns"}
        if self.measure == "cost":
            return {"model": "toUInt64(ifNull(cost_usd, 0) * 1e9)"}
        return PARTS if self.measure == "e2e" else {self.measure: PARTS[self.measure]}

    @property
    def parameters(self) -> dict[str, object]:
        return {
            "rate_limited": RATE_LIMITED,
            "threshold": self.threshold,
            "ttft_definition": self.ttft_definition,
        }


@dataclass(frozen=True, slots=True)
class Step:
    start_ns: int
    bad: int
    total: int


class BurnedReader(ExplainReader):
    """What an incident asks when it opens."""

    def burned_series(self, window: Window, filters: Filters | None, judgement: Judgement, step_s: int) -> list[Step]:
        """Bad and counted requests in each step that has any, in order of time; steps begin at multiples of `step_s`."""
        if step_s < 1 or (window.to_ns - window.from_ns) // (step_s * 10**9) > MAX_POINTS:
            raise StoreInputError(f"step {step_s} s is out of range; use 1 or more, and at most {MAX_POINTS} steps")
        condition = _counted(window, filters, judgement)
        condition.parameters["step_ns"] = step_s * 10**9
        rows = self.rows(
            f"SELECT intDiv(entry_start_ns, {{step_ns:UInt64}}) AS step, countIf(({judgement.bad}) = 1), count()"
            f" FROM requests FINAL WHERE {condition.sql} GROUP BY step ORDER BY step",
            condition.parameters,
        )
        return [Step(step * step_s * 10**9, bad, total) for step, bad, total in rows]

    def burned_value(
        self, window: Window, filters: Filters | None, judgement: Judgement, quantile: float
    ) -> float | None:
        """The measure at `quantile` (0 to 1) of the counted requests, in the threshold's unit; of failures, the share that
        was answered. None where nothing was counted."""
        condition = _counted(window, filters, judgement)
        if not 0 <= quantile <= 1:
            raise StoreInputError(f"quantile {quantile} is out of range; use 0 to 1")
        asked = (
            f"1 - avg(({judgement.bad}) = 1)"
            if judgement.measure == "failed"
            else f"quantileExactInclusive({quantile:f})(toFloat64(assumeNotNull({judgement.value})))"
        )
        if judgement.measure != "failed":
            condition.add(f"({judgement.value}) IS NOT NULL")
        [(count, value)] = self.rows(
            f"SELECT count(), {asked} FROM requests FINAL WHERE {condition.sql}", condition.parameters
        )
        return float(value) if count else None

    def burned_splits(
        self, window: Window, filters: Filters | None, judgement: Judgement, dimensions: Sequence[Dimension]
    ) -> tuple[Split, dict[str, dict[str, Split]]]:
        """The bad requests beside the good ones, for `controlplane.telemetry.explain`."""
        whole = _counted(window, filters, judgement)
        return self._sides(whole, _bad(whole, judgement), dimensions, judgement.parts)

    def burned_traces(self, window: Window, filters: Filters | None, judgement: Judgement, limit: int = 3) -> list[str]:
        """Trace ids of the worst, the worst first."""
        condition = _bad(_counted(window, filters, judgement), judgement)
        rows = self.rows(
            f"SELECT trace_id FROM requests FINAL WHERE {condition.sql}"
            f" ORDER BY {judgement.value} DESC, trace_id LIMIT {int(limit)}",
            condition.parameters,
        )
        return [trace.hex() for (trace,) in rows]


def _counted(window: Window, filters: Filters | None, judgement: Judgement) -> Where:
    condition = where(window, filters)
    condition.add(f"({judgement.bad}) IS NOT NULL", **judgement.parameters)
    return condition


def _bad(counted: Where, judgement: Judgement) -> Where:
    found = Where(list(counted.conditions), dict(counted.parameters))
    found.add(f"({judgement.bad}) = 1")
    return found
