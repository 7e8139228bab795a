"""Answers of the store as plain values of the API."""

from dataclasses import asdict
from typing import Any

from django.urls import reverse

from controlplane.telemetry.core.query_types import LatencyPoint, LatencyReport, Quantiles, Region, Window
from controlplane.telemetry.core.spans import Span
from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.query.causes import Causes, PoolCause
from controlplane.telemetry.query.core.explain import Explanation, Finding, nothing
from controlplane.telemetry.query.remedies import remedies

DECIMALS = 6
"""Of a millisecond: measurements are in nanoseconds."""


def report(measured: LatencyReport) -> dict[str, Any]:
    frequent = max(measured.ttft_ms, key=lambda name: (measured.ttft_count.get(name, 0), name), default=None)
    unattributed = measured.stages.get("unattributed")
    return {
        "requests": measured.requests,
        "answered": measured.answered,
        "errors": measured.errors,
        "cancelled": measured.cancelled,
        "unmeasured": measured.unmeasured,
        "e2e_ms": quantiles(measured.e2e_ms) if measured.e2e_ms else None,
        "ttft_ms": None if frequent is None else {**quantiles(measured.ttft_ms[frequent]), "definition": frequent},
        "ttft_ms_by_definition": {
            name: {**quantiles(value), "requests": measured.ttft_count.get(name, 0)}
            for name, value in sorted(measured.ttft_ms.items())
        },
        "stages": {
            name: {
                **{
                    key: None if measured.known(name) == "not measured" else round(value, DECIMALS)
                    for key, value in asdict(figures).items()
                },
                "lower_bound": measured.known(name) == "at least",
            }
            for name, figures in measured.stages.items()
            if name != "unattributed"
        },
        "unattributed_share": None if unattributed is None else round(unattributed.share, DECIMALS),
        "unattributed_share_above_median": None
        if unattributed is None
        else round(unattributed.share_above_median, DECIMALS),
        "newest_ns": measured.newest_ns,
        "exact": measured.exact,
    }


def point(latency: LatencyPoint) -> dict[str, Any]:
    return {
        "start_ns": latency.start_ns,
        "requests": latency.requests,
        "errors": latency.errors,
        "cancelled": latency.cancelled,
        "e2e_ms": quantiles(latency.e2e_ms) if latency.e2e_ms else None,
        "ttft_ms": {name: quantiles(value) for name, value in sorted(latency.ttft_ms.items())},
        "stack_ms": {
            q: {stage: round(value, DECIMALS) for stage, value in stack.items()}
            for q, stack in latency.stack_ms.items()
        },
    }


def quantiles(values: Quantiles) -> dict[str, float]:
    return {name: round(value, DECIMALS) for name, value in asdict(values).items()}


def explanation(comparison: Explanation, region: Region, queried: Window, causes: Causes) -> dict[str, Any]:
    window = region.window or queried
    return {
        "region": {
            "e2e_from_ms": region.min_e2e_ns / 1e6,
            "e2e_to_ms": None if region.max_e2e_ns is None else region.max_e2e_ns / 1e6,
            "from_ns": window.from_ns,
            "to_ns": window.to_ns,
        },
        "chosen": comparison.chosen,
        "rest": comparison.rest,
        "chosen_mean_ms": ns_as_ms(comparison.chosen_mean_ns),
        "rest_mean_ms": ns_as_ms(comparison.rest_mean_ns),
        "difference_ms": ns_as_ms(comparison.difference_ns),
        "stages": [
            {"stage": stage.stage, "ms": ns_as_ms(stage.ns), "share": round(stage.share, DECIMALS)}
            for stage in comparison.stages
        ],
        "dimensions": [
            {**asdict(account), "share": round(account.share, DECIMALS)} for account in comparison.dimensions
        ],
        "findings": [finding(each) for each in comparison.findings],
        "nothing": nothing(comparison),
        "causes": [cause(each) for each in causes.named],
        "unmeasured": causes.unmeasured,
    }


def cause(pool_cause: PoolCause) -> dict[str, Any]:
    return {
        "name": pool_cause.cause.name,
        "pool": pool_cause.pool,
        "summary": pool_cause.cause.summary,
        "impact_ms": round(pool_cause.cause.impact_ms, DECIMALS),
        "cost_ms": round(pool_cause.cost_ms, DECIMALS),
        "failed": pool_cause.cause.failed,
        "evidence": [each._asdict() for each in pool_cause.cause.evidence],
        "remedies": list(remedies()[pool_cause.cause.name].steps),
        "url": f"{reverse('causes')}#{pool_cause.cause.name}",
    }


def finding(difference: Finding) -> dict[str, Any]:
    return {
        "dimension": difference.dimension,
        "value": difference.value,
        "share": round(difference.accounts_for, DECIMALS),
        "chosen": difference.chosen,
        "rest": difference.rest,
        "chosen_share": round(difference.chosen_share, DECIMALS),
        "rest_share": round(difference.rest_share, DECIMALS),
        "lift": None if difference.lift is None else round(difference.lift, DECIMALS),
        "stage": difference.stage,
        "stage_ms": ns_as_ms(difference.stage_ns),
        "trace_ids": list(difference.exemplars),
        "same_as": [{"dimension": dimension, "value": value} for dimension, value in difference.same_as],
    }


def ns_as_ms(value: float) -> float:
    return round(value / 1e6, DECIMALS)


def row(ledger_row: LedgerRow) -> dict[str, Any]:
    return {
        **asdict(ledger_row),
        "critical_path": list(ledger_row.critical_path),
        "prompt_bucket": ledger_row.prompt_bucket,
    }


def span(stored: Span) -> dict[str, Any]:
    return {
        **stored._asdict(),
        "span_id": stored.span_id.hex(),
        "parent_id": stored.parent_id.hex(),
        "events": [event._asdict() for event in stored.events],
        "links": [
            {"trace_id": link.trace_id.hex(), "span_id": link.span_id.hex(), "attributes": link.attributes}
            for link in stored.links
        ],
    }
