"""One adapter per emitter of spans: each is a function from a span to its `Reading`."""

from controlplane.telemetry.core.spans import Span
from controlplane.telemetry.ledger.adapters import (
    application,
    dynamo,
    genai,
    generic,
    http,
    redis,
    sglang,
    triton,
    vllm,
    weir,
)
from controlplane.telemetry.ledger.reading import Reading

_ADAPTERS = (triton.read, vllm.read, sglang.read, dynamo.read, application.read, redis.read, genai.read, http.read)


def read(span: Span) -> Reading:
    """The reading of the first adapter that knows the span. The attribute `weir.stage` overrides the stage of any emitter."""
    if span.scope == weir.SCOPE:
        return weir.read(span)
    for adapter in _ADAPTERS:
        reading = adapter(span)
        if reading is not None:
            break
    else:
        reading = generic.read(span)
    if weir.STAGE in span.attributes or weir.REQUEST in span.attributes:
        return weir.override(span, reading)
    return reading
