"""The critical path of a request as segments of time, for the waterfall. They have the same sums by stage as the ledger's row."""

from collections.abc import Sequence
from typing import NamedTuple

from controlplane.telemetry.core.spans import Span
from controlplane.telemetry.ledger.close import of_users
from controlplane.telemetry.ledger.critical_path import critical_path
from controlplane.telemetry.ledger.own_time import stages_within
from controlplane.telemetry.ledger.requests import Request, find
from controlplane.telemetry.ledger.tree import build


class Segment(NamedTuple):
    """The time that belongs to a span and stage, from `start_ns` to `end_ns` on the span's own clock."""

    span_id: str  # 16 hex digits
    stage: str  # one of STAGES, or "unattributed"
    start_ns: int
    end_ns: int


def paths(spans: Sequence[Span]) -> dict[str, list[Segment]]:
    """The `segments` of all requests among these spans, by request id."""
    return {request.entry.id.hex(): _segments(request) for request in find(build(of_users(spans)))}


def segments(spans: Sequence[Span], request_id: str) -> list[Segment]:
    """The segments of the request whose entry span is `request_id` (16 hex digits), in order of time; empty where there is no such request.

    They cover the request without gap or overlap, on the ledger's clock where spans' clocks differ, and sum to its row by stage.
    """
    return paths(spans).get(request_id, [])


def _segments(request: Request) -> list[Segment]:
    return [
        Segment(node.id.hex(), stage or "unattributed", start - node.shift, end - node.shift)
        for node, section_start, section_end in reversed(critical_path(request.top, request.start, request.end))
        for stage, start, end in stages_within(node, section_start, section_end)
        if end > start
    ]
