"""SQL that says whether a request is good, bad or not counted, as controlplane/slo/core/sli.py does. Tests compare the two."""

import math
import struct
from collections.abc import Sequence

from controlplane.telemetry.core.objective_counts import AVAILABILITIES, Cut
from controlplane.telemetry.core.query_types import AT_THE_SERVER
from inference.contract.stages import STAGES

from ..errors import StoreInputError
from .where import CLIENT_ERROR, CLIENT_LIMIT

NS_PER_MS = 1_000_000
_TOKENS = "(ifNull(prompt_tokens, 0) + ifNull(output_tokens, 0))"
_COST = f"(cost_usd IS NOT NULL AND {_TOKENS} != 0)", f"assumeNotNull(cost_usd) / {_TOKENS} * 1000"
"""Whether a request has a cost per 1,000 tokens, and its value in USD."""
UNPRICED = f"status = 'ok' AND cost_usd IS NULL AND {_TOKENS} != 0"


def code(cut: Cut, index: int, parameters: dict[str, object]) -> str:
    """SQL of `place * 2 + bound`, or -1 where the request is not counted.

    `place` is the number of thresholds that the value is above (for availability, 1 is bad). `bound` is 1 if the value is a lower bound.
    """
    if cut.measure in AVAILABILITIES:
        own = CLIENT_LIMIT if cut.measure != "availability" else f"{CLIENT_LIMIT} OR {CLIENT_ERROR}"
        return f"multiIf(status = 'cancelled' OR {own}, -1, status = 'ok', 0, 2)"
    if cut.measure == "cost":
        known, value = _COST
        return f"if(status = 'ok' AND {known}, 2 * {_place(value, _floats(cut.thresholds, index, parameters))}, -1)"
    known, value, waited = _latency(cut, index, parameters)
    thresholds = (
        _floats([t * NS_PER_MS for t in cut.thresholds], index, parameters)
        if cut.measure == "itl"
        else _integers([t * NS_PER_MS for t in cut.thresholds], index, parameters)
    )
    bound = f"if({waited[0]} AND {_place(waited[1], thresholds)} > 0, 2 * {_place(waited[1], thresholds)} + 1, -1)"
    return (
        f"multiIf(status = 'ok', if({known}, 2 * {_place(value, thresholds)}, -1), status = 'cancelled', {bound}, -1)"
    )


def bad(cut: Cut, parameters: dict[str, object]) -> str:
    """SQL for a cut with one threshold, or availability: 1, 0, or NULL where the request is not counted."""
    coded = code(cut, 0, parameters)
    return f"if(({coded}) < 0, NULL, ({coded}) > 1)"


def measured(cut: Cut, parameters: dict[str, object]) -> str:
    """SQL of the value in the threshold's unit, or NULL where it was not measured; for availability, the E2E."""
    if cut.measure == "cost":
        known, value = _COST
        return f"if({known}, {value}, NULL)"
    known, value, _ = _latency(Cut("e2e") if cut.measure in AVAILABILITIES else cut, 0, parameters)
    return f"if({known}, ({value}) / {NS_PER_MS}, NULL)"


def _latency(cut: Cut, index: int, parameters: dict[str, object]) -> tuple[str, str, tuple[str, str]]:
    """SQL of whether a request has the measure and its value in ns; then the same for how long a cancelled request had waited."""
    if cut.measure == "e2e":
        return "1", "e2e_ns", ("1", "e2e_ns")
    if cut.measure == "ttft":
        parameters[f"definition_{index}"] = cut.ttft_definition
        known = f"(ttft_ns IS NOT NULL AND ttft_definition = {{definition_{index}:String}})"
        value = "assumeNotNull(ttft_ns)"
        return known, value, (f"(ttft_ns IS NULL OR {known})", "ifNull(ttft_ns, e2e_ns)")
    if cut.measure == "itl":
        known, value = (
            "(ifNull(output_tokens, 0) > 1 AND decode_ns > 0)",
            "decode_ns / (toInt64(ifNull(output_tokens, 0)) - 1)",
        )
        return known, value, (known, value)
    if cut.measure in STAGES:
        known = "NOT unmeasured" if cut.measure in AT_THE_SERVER else "1"
        return known, f"stage_{cut.measure}", ("1", f"stage_{cut.measure}")
    raise StoreInputError(f"measure {cut.measure!r} is unknown; use availability, cost, ttft, itl, e2e or a stage")


def _place(value: str, thresholds: str) -> str:
    """How many thresholds the value is above. NaN is above all of them."""
    return f"toInt32(arrayCount(t -> NOT ({value} <= t), {thresholds}))"


def _floats(thresholds: Sequence[float], index: int, parameters: dict[str, object]) -> str:
    """Thresholds as bits, because text may not convert back to the same float."""
    parameters[f"cut_{index}"] = [struct.unpack("<Q", struct.pack("<d", threshold))[0] for threshold in thresholds]
    return f"arrayMap(bits -> reinterpretAsFloat64(bits), {{cut_{index}:Array(UInt64)}})"


def _integers(thresholds: Sequence[float], index: int, parameters: dict[str, object]) -> str:
    """Thresholds rounded down: values are whole ns."""
    parameters[f"cut_{index}"] = [
        2**64 - 1 if threshold >= 2**64 else math.floor(threshold) for threshold in thresholds
    ]
    return f"{{cut_{index}:Array(UInt64)}}"
