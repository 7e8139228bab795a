"""A trace as rows of a waterfall: depth first, children by start, each with its bar, its time on the critical path, its details."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from controlplane.dashboard.core.palette import UNATTRIBUTED
from controlplane.telemetry.core.spans import AttrValue, Span
from controlplane.telemetry.ledger.attribute_index import written
from controlplane.telemetry.ledger.path_segments import Segment

WIDTH = 1000.0
"""Bars are in thousandths of the trace's length."""
NARROWEST = 1.5
"""A span of no length is still a mark, in the same unit."""
KINDS = ("", "internal", "server", "client", "producer", "consumer")


class Mark(NamedTuple):
    x: float
    width: float
    stage: str
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    span_id: str
    name: str
    service: str
    kind: str
    depth: int
    stage: str  # "" for a container
    start_ns: int
    offset_ns: int  # since the trace's first span began
    duration_ns: int
    on_path_ns: int  # of the requests' time, what belongs to this very span
    failed: bool
    orphan: bool  # names a parent that is not in the trace (yet)
    x: float
    width: float
    path: tuple[Mark, ...]
    events: tuple[Mark, ...]
    details: tuple[tuple[str, str, str], ...]  # name, value, and `key=value` where requests are found by it


class Tick(NamedTuple):
    x: float
    offset_ns: int

    @property
    def percent(self) -> float:
        return round(self.x / WIDTH * 100, 2)


@dataclass(frozen=True, slots=True)
class Waterfall:
    start_ns: int
    length_ns: int
    rows: tuple[Row, ...]
    ticks: tuple[Tick, ...]
    left_out: int  # spans beyond `most`


def waterfall(spans: Sequence[Span], segments: Sequence[Segment], most: int = 1000) -> Waterfall:
    """Rows of `spans`, of which `segments` are on a request's critical path. At most `most` rows; none of spans that are kept no longer."""
    if not spans:
        return Waterfall(0, 1, (), (), 0)
    start_ns = min(span.start_ns for span in spans)
    length_ns = max(1, max(max(span.end_ns, span.start_ns) for span in spans) - start_ns)
    on_path: dict[str, list[Segment]] = defaultdict(list)
    for segment in segments:
        on_path[segment.span_id].append(segment)

    def x(at_ns: int) -> float:
        return round(WIDTH * min(length_ns, max(0, at_ns - start_ns)) / length_ns, 2)

    known = {span.span_id for span in spans}
    rows: list[Row] = []
    for span, depth in _depth_first(spans):
        if len(rows) == most:
            break
        own = on_path.get(span.span_id.hex(), [])
        left = x(span.start_ns)
        rows.append(
            Row(
                span_id=span.span_id.hex(),
                name=span.name,
                service=span.service,
                kind=KINDS[span.kind] if 0 <= span.kind < len(KINDS) else "",
                depth=min(depth, 24),
                stage=_stage(span, own),
                start_ns=span.start_ns,
                offset_ns=span.start_ns - start_ns,
                duration_ns=max(0, span.end_ns - span.start_ns),
                on_path_ns=sum(segment.end_ns - segment.start_ns for segment in own),
                failed=span.status_code == 2,
                orphan=bool(span.parent_id) and span.parent_id not in known,
                x=min(left, WIDTH - NARROWEST),
                width=max(NARROWEST, round(x(span.end_ns) - left, 2)),
                path=tuple(
                    Mark(
                        x(part.start_ns),
                        max(NARROWEST, round(x(part.end_ns) - x(part.start_ns), 2)),
                        part.stage,
                        part.stage,
                    )
                    for part in own
                ),
                events=tuple(Mark(x(event.time_ns), 0.0, "", event.name) for event in span.events),
                details=_details(span, start_ns),
            )
        )
    return Waterfall(start_ns, length_ns, tuple(rows), ticks(length_ns), len(spans) - len(rows))


def ticks(length_ns: int, most: int = 6) -> tuple[Tick, ...]:
    """Round offsets from 0 on: 1, 2 or 5 times a power of ten, at most `most` of them."""
    step = 1
    while length_ns / step > most:
        digits = str(step)
        step = step * 5 // 2 if digits[0] == "2" else step * 2
    return tuple(Tick(round(WIDTH * at / length_ns, 2), at) for at in range(0, length_ns + 1, step))


def _depth_first(spans: Sequence[Span]) -> Iterator[tuple[Span, int]]:
    """Every span once, whatever its parents say: a cycle's members follow as roots."""
    children: dict[bytes, list[Span]] = defaultdict(list)
    known = {span.span_id for span in spans}
    for span in sorted(spans, key=lambda span: (span.start_ns, -span.end_ns, span.span_id)):
        children[span.parent_id if span.parent_id in known and span.parent_id != span.span_id else b""].append(span)
    seen: set[bytes] = set()
    for start in (children[b""], spans):
        stack = [(span, 0) for span in reversed(start)]
        while stack:
            span, depth = stack.pop()
            if span.span_id in seen:
                continue
            seen.add(span.span_id)
            yield span, depth
            stack.extend((child, depth + 1) for child in reversed(children[span.span_id]))


def _stage(span: Span, own: Sequence[Segment]) -> str:
    """What the span says of itself, else the stage of most of its own time on the path."""
    said = span.attributes.get("weir.stage")
    if isinstance(said, str):
        return said
    by_stage: dict[str, int] = defaultdict(int)
    for segment in own:
        if segment.stage != UNATTRIBUTED:
            by_stage[segment.stage] += segment.end_ns - segment.start_ns
    return max(by_stage, key=lambda stage: by_stage[stage], default="")


def _details(span: Span, start_ns: int) -> tuple[tuple[str, str, str], ...]:
    details = [("span id", span.span_id.hex(), "")]
    if span.parent_id:
        details.append(("parent", span.parent_id.hex(), ""))
    if span.scope:
        details.append(("scope", span.scope, ""))
    for key, value in sorted(span.attributes.items()):
        known = written(key, value)
        details.append((key, text(value), f"{key}={known}" if known else ""))
    if span.status_message:
        details.append(("status", text(span.status_message), ""))
    for event in span.events:
        after, attributes = f"+{(event.time_ns - start_ns) / 1e6:.3f} ms", _flat(event.attributes)
        details.append((f"event {event.name}", f"{after} · {attributes}" if attributes else after, ""))
    for link in span.links:
        where, attributes = f"trace {link.trace_id.hex()}, span {link.span_id.hex()}", _flat(link.attributes)
        details.append(("link", f"{where} · {attributes}" if attributes else where, ""))
    details += [(f"resource {key}", text(value), "") for key, value in sorted(span.resource.items())]
    return tuple(details)


def _flat(attributes: Mapping[str, AttrValue]) -> str:
    return ", ".join(f"{key}={text(value)}" for key, value in sorted(attributes.items()))


def text(value: AttrValue, longest: int = 2000) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    shown = "[" + ", ".join(text(part) for part in value) + "]" if isinstance(value, tuple) else str(value)
    return shown if len(shown) <= longest else shown[:longest] + "…"
