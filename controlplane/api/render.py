"""Answers of the store as the API's plain values. Pure."""

from dataclasses import asdict
from typing import Any

from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.spans import Span
from controlplane.telemetry.store.types import LatencyPoint, LatencyReport, Quantiles

DECIMALS = 6
"""Of a millisecond: nothing below a nanosecond is measured."""


def report(found: LatencyReport) -> dict[str, Any]:
    frequent = max(found.ttft_ms, key=lambda name: (found.ttft_count.get(name, 0), name), default=None)
    unattributed = found.stages.get("unattributed")
    return {
        "requests": found.requests,
        "errors": found.errors,
        "e2e_ms": quantiles(found.e2e_ms) if found.e2e_ms else None,
        "ttft_ms": None if frequent is None else {**quantiles(found.ttft_ms[frequent]), "definition": frequent},
        "ttft_ms_by_definition": {
            name: {**quantiles(value), "requests": found.ttft_count.get(name, 0)}
            for name, value in sorted(found.ttft_ms.items())
        },
        "stages": {
            name: {key: round(value, DECIMALS) for key, value in asdict(figures).items()}
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
        "e2e_ms": quantiles(found.e2e_ms),
        "ttft_ms": {name: quantiles(value) for name, value in sorted(found.ttft_ms.items())},
        "stack_ms": {
            q: {stage: round(value, DECIMALS) for stage, value in stack.items()} for q, stack in found.stack_ms.items()
        },
    }


def quantiles(found: Quantiles) -> dict[str, float]:
    return {name: round(value, DECIMALS) for name, value in asdict(found).items()}


def row(found: LedgerRow) -> dict[str, Any]:
    return {**asdict(found), "critical_path": list(found.critical_path), "prompt_bucket": found.prompt_bucket}


def span(found: Span) -> dict[str, Any]:
    return {
        **found._asdict(),
        "span_id": found.span_id.hex(),
        "parent_id": found.parent_id.hex(),
        "events": [event._asdict() for event in found.events],
    }
