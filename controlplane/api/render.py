"""Answers of the store as the API's plain values. Pure."""

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
"""Of a millisecond: nothing below a nanosecond is measured."""


def report(found: LatencyReport) -> dict[str, Any]:
    frequent = max(found.ttft_ms, key=lambda name: (found.ttft_count.get(name, 0), name), default=None)
    unattributed = found.stages.get("unattributed")
    return {
        "requests": found.requests,
        "answered": found.answered,
        "errors": found.errors,
        "cancelled": found.cancelled,
        "unmeasured": found.unmeasured,
        "e2e_ms": quantiles(found.e2e_ms) if found.e2e_ms else None,
        "ttft_ms": None if frequent is None else {**quantiles(found.ttft_ms[frequent]), "definition": frequent},
        "ttft_ms_by_definition": {
            name: {**quantiles(value), "requests": found.ttft_count.get(name, 0)}
            for name, value in sorted(found.ttft_ms.items())
        },
        "stages": {
            name: {
                key: None if found.known(name) == "not measured" else round(value, DECIMALS)
                for key, value in asdict(figures).items()
            }
            for name, figures in found.stages.items()
            if name != "unattributed"
        },
        "unattributed_share": None if unattributed is None else round(unattributed.share, DECIMALS),
        "unattributed_share_above_median": None
        if unattributed is None
        else round(unattributed.share_above_median, DECIMALS),
        "newest_ns": found.newest_ns,
    }


def point(found: LatencyPoint) -> dict[str, Any]:
    return {
        "start_ns": found.start_ns,
        "requests": found.requests,
        "errors": found.errors,
        "cancelled": found.cancelled,
        "e2e_ms": quantiles(found.e2e_ms) if found.e2e_ms else None,
        "ttft_ms": {name: quantiles(value) for name, value in sorted(found.ttft_ms.items())},
        "stack_ms": {
            q: {stage: round(value, DECIMALS) for stage, value in stack.items()} for q, stack in found.stack_ms.items()
        },
    }


def quantiles(found: Quantiles) -> dict[str, float]:
    return {name: round(value, DECIMALS) for name, value in asdict(found).items()}


def explanation(found: Explanation, region: Region, asked: Window, causes: Causes) -> dict[str, Any]:
    window = region.window or asked
    return {
        "region": {
            "e2e_from_ms": region.min_e2e_ns / 1e6,
            "e2e_to_ms": None if region.max_e2e_ns is None else region.max_e2e_ns / 1e6,
            "from_ns": window.from_ns,
            "to_ns": window.to_ns,
        },
        "chosen": found.chosen,
        "rest": found.rest,
        "chosen_mean_ms": ns_as_ms(found.chosen_mean_ns),
        "rest_mean_ms": ns_as_ms(found.rest_mean_ns),
        "difference_ms": ns_as_ms(found.difference_ns),
        "stages": [
            {"stage": stage.stage, "ms": ns_as_ms(stage.ns), "share": round(stage.share, DECIMALS)}
            for stage in found.stages
        ],
        "dimensions": [{**asdict(account), "share": round(account.share, DECIMALS)} for account in found.dimensions],
        "findings": [finding(each) for each in found.findings],
        "nothing": nothing(found),
        "causes": [cause(each) for each in causes.named],
        "unmeasured": causes.unmeasured,
    }


def cause(found: PoolCause) -> dict[str, Any]:
    return {
        "name": found.cause.name,
        "pool": found.pool,
        "summary": found.cause.summary,
        "impact_ms": round(found.cause.impact_ms, DECIMALS),
        "cost_ms": round(found.cost_ms, DECIMALS),
        "failed": found.cause.failed,
        "evidence": [each._asdict() for each in found.cause.evidence],
        "remedies": list(remedies()[found.cause.name].steps),
        "url": f"{reverse('causes')}#{found.cause.name}",
    }


def finding(found: Finding) -> dict[str, Any]:
    return {
        "dimension": found.dimension,
        "value": found.value,
        "share": round(found.accounts_for, DECIMALS),
        "chosen": found.chosen,
        "rest": found.rest,
        "chosen_share": round(found.chosen_share, DECIMALS),
        "rest_share": round(found.rest_share, DECIMALS),
        "lift": None if found.lift is None else round(found.lift, DECIMALS),
        "stage": found.stage,
        "stage_ms": ns_as_ms(found.stage_ns),
        "trace_ids": list(found.exemplars),
        "same_as": [{"dimension": dimension, "value": value} for dimension, value in found.same_as],
    }


def ns_as_ms(value: float) -> float:
    return round(value / 1e6, DECIMALS)


def row(found: LedgerRow) -> dict[str, Any]:
    return {**asdict(found), "critical_path": list(found.critical_path), "prompt_bucket": found.prompt_bucket}


def span(found: Span) -> dict[str, Any]:
    return {
        **found._asdict(),
        "span_id": found.span_id.hex(),
        "parent_id": found.parent_id.hex(),
        "events": [event._asdict() for event in found.events],
    }
