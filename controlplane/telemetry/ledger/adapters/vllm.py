"""Reads vLLM's spans. `llm_request` has no children and carries its stages as `gen_ai.latency.*` in seconds.

The span starts when the request arrives (vllm/v1/engine/output_processor.py, `do_tracing`), and time_to_first_token counts from there.
So `tokenizer` (with the hop to the engine) = TTFT - queue - prefill, then come queue, prefill and decode, and the rest is `egress`.
Each takes at most what is left, so figures that contradict one another or the span's own times still add up.

While it starts, vLLM sends a trace of its own, whose root `Overall Loading` (vllm/v1/engine/core_client.py, `make_async_mp_client`) lasts
from the start of its engine until that can answer: a cold start, without the time before (image, imports).
"""

from controlplane.telemetry.core.spans import Span
from controlplane.telemetry.ledger.attributes import seconds_as_ns
from controlplane.telemetry.ledger.reading import Cuts, Entry, FirstToken, Node, Reading

_LATENCY = "gen_ai.latency."


def read(span: Span) -> Reading | None:
    if span.name == "llm_request":
        return _REQUEST
    if span.scope.startswith("vllm."):
        return _LOAD if span.name == "Overall Loading" and not span.parent_id else _OTHER
    return None


def _cuts(node: Node) -> Cuts:
    attributes = node.span.attributes
    ttft = seconds_as_ns(attributes, _LATENCY + "time_to_first_token")
    queue = seconds_as_ns(attributes, _LATENCY + "time_in_queue") or 0
    prefill = seconds_as_ns(attributes, _LATENCY + "time_in_model_prefill")
    decode = seconds_as_ns(attributes, _LATENCY + "time_in_model_decode")
    inference = seconds_as_ns(attributes, _LATENCY + "time_in_model_inference")
    if inference is None and prefill is not None and decode is not None:
        inference = prefill + decode

    at = node.start
    cuts: Cuts = []
    if ttft is not None and prefill is not None:
        cuts.append((at, "tokenizer"))
        at += max(0, ttft - queue - prefill)
    cuts.append((at, "queue"))
    at += queue
    cuts.append((at, "model"))
    if inference is not None:
        cuts.append((at + inference, "egress"))
    return cuts


def _first_token(node: Node) -> FirstToken | None:
    attributes = node.span.attributes
    ttft = seconds_as_ns(attributes, _LATENCY + "time_to_first_token")
    if ttft is not None:
        return FirstToken(ttft, "vllm-arrival", node.start + ttft)
    queue = seconds_as_ns(attributes, _LATENCY + "time_in_queue") or 0
    prefill = seconds_as_ns(attributes, _LATENCY + "time_in_model_prefill")
    return None if prefill is None else FirstToken(prefill, "vllm-scheduled", node.start + queue + prefill)


def _queue_missing(node: Node) -> bool:
    return seconds_as_ns(node.span.attributes, _LATENCY + "time_in_queue") is None


_LOAD = Reading("vllm", load=True)
_OTHER = Reading("vllm")
_REQUEST = Reading("vllm", Entry.ENGINE, cuts=_cuts, first_token=_first_token, queue_missing=_queue_missing)
