"""Reads recorded OTLP/JSON exports of real systems as spans. The receiver's decoder has its own tests."""

import json
from pathlib import Path
from typing import Any

import pytest

from controlplane.telemetry.core.spans import AttrValue, Event, Span

FIXTURES = Path(__file__).parents[4] / "shared" / "fixtures"


def recorded(*names: str) -> list[Span]:
    """All spans of the named fixture files; skips where they are absent."""
    paths = [FIXTURES / name for name in names]
    for path in paths:
        if not path.exists():
            pytest.skip(f"needs {path}, which is not here")
    return [span for path in paths for span in _spans(json.loads(path.read_text()))]


def by_trace(spans: list[Span]) -> dict[str, list[Span]]:
    traces: dict[str, list[Span]] = {}
    for span in spans:
        traces.setdefault(span.trace_id.hex(), []).append(span)
    return traces


def _spans(export: dict[str, Any]) -> list[Span]:
    spans = []
    for resource in export["resourceSpans"]:
        service = _attributes(resource.get("resource", {})).get("service.name", "")
        for scope in resource["scopeSpans"]:
            for raw in scope["spans"]:
                spans.append(
                    Span(
                        trace_id=bytes.fromhex(raw["traceId"]),
                        span_id=bytes.fromhex(raw["spanId"]),
                        parent_id=bytes.fromhex(raw.get("parentSpanId", "")),
                        name=raw["name"],
                        kind=raw["kind"],
                        start_ns=int(raw["startTimeUnixNano"]),
                        end_ns=int(raw["endTimeUnixNano"]),
                        status_code=raw.get("status", {}).get("code", 0),
                        service=str(service),
                        scope=scope.get("scope", {}).get("name", ""),
                        attributes=_attributes(raw),
                        events=tuple(Event(int(e["timeUnixNano"]), e["name"]) for e in raw.get("events", [])),
                    )
                )
    return spans


def _attributes(holder: dict[str, Any]) -> dict[str, AttrValue]:
    return {item["key"]: _value(item["value"]) for item in holder.get("attributes", [])}


def _value(value: dict[str, Any]) -> AttrValue:
    kind, raw = next(iter(value.items()))
    return int(raw) if kind == "intValue" else raw
