"""Reads SGLang's spans (python/sglang/srt/observability/{trace,req_time_stats}.py): a root for each request, beneath it a span for each
thread that worked on it, and beneath those one for each stage.

With `--trace-level 1` stages come without those that hold others. What no stage explains is the root's own time: from its
`gen_ai.latency.*`, which count from the request's arrival, `tokenizer` until the engine has it, then `model`, else `unattributed`.
"""

from controlplane.telemetry.core.spans import Span
from controlplane.telemetry.ledger.attributes import seconds_as_ns
from controlplane.telemetry.ledger.reading import Cuts, Entry, FirstToken, Node, Reading

SCOPE = "sglang server"

_LATENCY = "gen_ai.latency."
_STAGES = {
    "tokenizer": ("tokenize", "api_server_dispatch", "dpc_dispatch"),
    "queue": ("request_process", "prefill_waiting", "decode_waiting", "prefill_bootstrap", "decode_bootstrap"),
    "model": (
        "prefill_prepare", "prefill_forward", "chunked_prefill", "decode_prepare", "decode_forward", "decode_loop", "fake_output",
        "quick_finish",
    ),
    "network": ("prefill_transfer_kv_cache", "decode_transferred"),
}  # fmt: skip


def read(span: Span) -> Reading | None:
    if span.scope != SCOPE:
        return None
    if "rid" in span.attributes:
        return _REQUEST
    return _BY_NAME.get(span.name, _OTHER)


def _cuts(node: Node) -> Cuts:
    attributes = node.span.attributes
    ttft = seconds_as_ns(attributes, _LATENCY + "time_to_first_token")
    prefill = seconds_as_ns(attributes, _LATENCY + "time_in_model_prefill")
    if ttft is None or prefill is None:
        return []
    return [(node.start, "tokenizer"), (node.start + max(0, ttft - prefill), "model")]


def _first_token(node: Node) -> FirstToken | None:
    ttft = seconds_as_ns(node.span.attributes, _LATENCY + "time_to_first_token")
    return None if ttft is None else FirstToken(ttft, "sglang-arrival", node.start + ttft)


def _queue_missing(node: Node) -> bool:
    """Whether none of its threads says how long it waited."""
    return not any(stage.reading.stage == "queue" for thread in node.children for stage in thread.children)


_REQUEST = Reading("sglang", Entry.ENGINE, cuts=_cuts, first_token=_first_token, queue_missing=_queue_missing)
_OTHER = Reading("sglang", inner=True)
_BY_NAME = {name: Reading("sglang", stage=stage, inner=True) for stage, names in _STAGES.items() for name in names}
