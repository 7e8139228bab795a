"""Reads spans of Weir's gateway (docs/architecture.md, "Span contract"), and `weir.stage` on any span."""

from controlplane.telemetry.core.spans import CLIENT, Span
from controlplane.telemetry.ledger.attributes import flag, seconds_as_ns
from controlplane.telemetry.ledger.reading import Entry, FirstToken, Node, Reading
from inference.contract.stages import STAGES

SCOPE = "weir.gateway"
REQUEST = "weir.request"
STAGE = "weir.stage"

MAX_TTFT_NS = 10**18


def first_token(node: Node) -> FirstToken | None:
    """Definition `gateway`: from the last byte read of the request to the first token written to the socket."""
    attributes = node.span.attributes
    ttft_ns = attributes.get("weir.ttft_ns")
    if type(ttft_ns) is int and 0 <= ttft_ns <= MAX_TTFT_NS:
        return FirstToken(ttft_ns, "gateway", node.start + ttft_ns)
    ns = seconds_as_ns(attributes, "gen_ai.response.time_to_first_chunk")
    return None if ns is None else FirstToken(ns, "gateway", node.start + ns)


_ROOT = Reading("weir", Entry.GATEWAY, first_token=first_token)
_PLAIN = Reading("weir")
_MODEL_CALL = Reading("weir", stage="model", call=True)
_BESIDE = _MODEL_CALL._replace(beside=True)
_BY_STAGE = {stage: Reading("weir", stage=stage) for stage in STAGES}


def read(span: Span) -> Reading:
    attributes = span.attributes
    stage = attributes.get(STAGE)
    if type(stage) is str and stage in _BY_STAGE:
        if stage != "model" or span.kind != CLIENT:
            return _BY_STAGE[stage]
        return _BESIDE if flag(attributes, "weir.beside") else _MODEL_CALL
    return _ROOT if flag(attributes, REQUEST) else _PLAIN


def override(span: Span, reading: Reading) -> Reading:
    """`reading`, overridden by the span's `weir.*` attributes."""
    stage = span.attributes.get(STAGE)
    if type(stage) is str and stage in _BY_STAGE:
        return reading._replace(stage=stage, call=stage == "model" and span.kind == CLIENT, cuts=None)
    return _ROOT if flag(span.attributes, REQUEST) else reading
