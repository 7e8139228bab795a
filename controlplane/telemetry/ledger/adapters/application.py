"""Reads what an application does before it calls a model: retrieval by OpenTelemetry's GenAI conventions, retrieval and reranking by
OpenInference (github.com/Arize-ai/openinference, spec/semantic_conventions.md).
"""

from controlplane.telemetry.core.spans import Span
from controlplane.telemetry.ledger.reading import Reading

_STAGES = (
    ("gen_ai.operation.name", "retrieval", Reading("application", stage="retrieval")),
    ("openinference.span.kind", "RETRIEVER", Reading("application", stage="retrieval")),
    ("openinference.span.kind", "RERANKER", Reading("application", stage="rerank")),
)


def read(span: Span) -> Reading | None:
    for name, value, reading in _STAGES:
        if span.attributes.get(name) == value:
            return reading
    return None
