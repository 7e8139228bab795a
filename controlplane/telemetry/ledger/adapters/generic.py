"""Reads any other span: the own time of a CLIENT span is `network`, that of all others is unattributed."""

from controlplane.telemetry.core.spans import CLIENT, SERVER, Span
from controlplane.telemetry.ledger.reading import Reading

_CLIENT = Reading("generic", stage="network")
_SERVER = Reading("generic", far_side=True)
_OTHER = Reading("generic")


def read(span: Span) -> Reading:
    if span.kind == CLIENT:
        return _CLIENT
    return _SERVER if span.kind == SERVER else _OTHER
