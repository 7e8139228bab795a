"""Prepares failed requests for pages: how many, what share, and for which reasons."""

from collections.abc import Sequence
from typing import Any

from controlplane.dashboard import links
from controlplane.telemetry.core.query_types import Failure
from controlplane.telemetry.query.core.question import Question

MAX_REASONS = 4


def words(failure: Failure) -> str:
    """`service_unavailable (503) in model`; what the spans do not have is left out."""
    named = failure.error_type or failure.status
    code = "" if failure.http_status is None else f" ({failure.http_status})"
    return f"{named}{code}{f' in {failure.error_stage}' if failure.error_stage else ''}"


def failures_context(question: Question, requests: int, errors: int, failures: Sequence[Failure]) -> dict[str, Any]:
    """`failures`: the most frequent first. None of them are known where requests are no longer stored."""
    shown = failures[:MAX_REASONS]
    return {
        "count": errors,
        "share": errors / requests if requests else None,
        "href": links.failed(question),
        "reasons": [
            {
                "words": words(failure),
                "count": failure.requests,
                "after_ms": failure.p50_ms,
                "href": links.failed_for(question, failure),
            }
            for failure in shown
        ],
        "others": max(0, errors - sum(failure.requests for failure in shown)) if shown else 0,
    }
