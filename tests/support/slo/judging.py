"""Judges a single ledger row by an indicator, as the store must judge all of them."""

from controlplane.slo.core.sli import Availability, Cost, Histogram, Indicator, Latency
from controlplane.telemetry.ledger.row import RATE_LIMITED, LedgerRow


def is_good(indicator: Indicator, row: LedgerRow) -> bool | None:
    """None: not counted."""
    match indicator:
        case Availability():
            if row.status == "cancelled" or row.error_type == RATE_LIMITED:
                return None
            mistake = row.status != "ok" and row.http_status in {*range(400, 500)} - {408, 429, 499}
            return None if mistake and not indicator.count_client_errors else row.status == "ok"
        case Latency():
            if row.status == "cancelled":
                return _of_abandoned(indicator, row)
            is_lower_bound = row.unmeasured and indicator.measure in ("queue", "network")
            measured_ns = _measured_ns(indicator, row) if row.status == "ok" and not is_lower_bound else None
            return None if measured_ns is None else measured_ns <= indicator.threshold_ms * 1_000_000
        case Cost():
            tokens = (row.prompt_tokens or 0) + (row.output_tokens or 0)
            if row.status != "ok" or row.cost_usd is None or tokens == 0:
                return None
            return row.cost_usd / tokens * 1_000 <= indicator.usd_per_1k_tokens
        case Histogram():
            return None


def _of_abandoned(indicator: Latency, row: LedgerRow) -> bool | None:
    """The wait is a lower bound: above the threshold the request is bad, below it is not counted."""
    waited_ns = _measured_ns(indicator, row)
    if indicator.measure == "ttft" and row.ttft_ns is None:
        waited_ns = row.e2e_ns
    return False if waited_ns is not None and waited_ns > indicator.threshold_ms * 1_000_000 else None


def _measured_ns(indicator: Latency, row: LedgerRow) -> float | None:
    if indicator.measure == "e2e":
        return row.e2e_ns
    if indicator.measure == "ttft":
        return row.ttft_ns if row.ttft_definition == indicator.ttft_definition else None
    if indicator.measure == "itl":
        gaps = (row.output_tokens or 0) - 1
        return row.decode_ns / gaps if gaps > 0 and row.decode_ns else None
    return row.stages[indicator.measure]
