"""Reads recorded OTLP/JSON exports of real systems as spans."""

from pathlib import Path

import pytest

from controlplane.telemetry.core.spans import Span
from controlplane.telemetry.ingest.otlp.decode.from_json import as_protobuf
from tests.support.telemetry.otlp_payloads import spans_in

FIXTURES = Path(__file__).parents[4] / "shared" / "fixtures"


def recorded(*names: str) -> list[Span]:
    """All spans of the named fixture files; skips where they are absent."""
    paths = [FIXTURES / name for name in names]
    for path in paths:
        if not path.exists():
            pytest.skip(f"needs {path}, which is not here")
    return [span for path in paths for span in spans_in(as_protobuf(path.read_bytes()))]


def by_trace(spans: list[Span]) -> dict[str, list[Span]]:
    traces: dict[str, list[Span]] = {}
    for span in spans:
        traces.setdefault(span.trace_id.hex(), []).append(span)
    return traces
