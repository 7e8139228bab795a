"""Reads any other span: the own time of a CLIENT span is `network`, that of all others is unattributed.

Health checks over gRPC are probes: those of gRPC itself, and of KServe's protocol (`ServerReady`, `ModelMetadata`, …).
"""

from controlplane.telemetry.core.spans import CLIENT, SERVER, Span
from controlplane.telemetry.ledger.attributes import text
from controlplane.telemetry.ledger.reading import Reading

_PROBED = frozenset({"grpc.health.v1.Health", "inference.GRPCInferenceService"})
_WORK = frozenset({"ModelInfer", "ModelStreamInfer"})

_CLIENT = Reading("generic", stage="network")
_PROBE = Reading("probe")
_OTHER = Reading("generic")


def read(span: Span) -> Reading:
    if span.kind == CLIENT:
        return _CLIENT
    probed = text(span.attributes, "rpc.service") in _PROBED and text(span.attributes, "rpc.method") not in _WORK
    return _PROBE if probed and span.kind == SERVER else _OTHER
