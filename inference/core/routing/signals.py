"""Reads how busy a model server is from its Prometheus page.

The names are those of vLLM (vllm/v1/metrics/loggers.py), SGLang (srt/observability/metrics_collector.py), TensorRT-LLM
(tensorrt_llm/metrics/collector.py), llama.cpp (tools/server/README.md), text-generation-inference (router/src/server.rs)
and Triton's TensorRT-LLM backend (inflight_batcher_llm/src/custom_metrics_reporter). A server whose page has none of
them, such as Triton with vLLM, is unknown.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple


class Signals(NamedTuple):
    """What a model server says of its load. None is not known, which is never the same as 0.

    `at_s` is when it was read, on the event loop's clock.
    """

    at_s: float
    waiting: float | None = None  # requests that it has and has not begun
    running: float | None = None
    kv_use: float | None = None  # share of its KV cache that is in use, 0 to 1

    @property
    def known(self) -> bool:
        return self.waiting is not None or self.running is not None


class _Series(NamedTuple):
    """A metric's name, and the label that a series of it must have; empty takes all."""

    name: bytes
    label: bytes = b""


class _Names(NamedTuple):
    waiting: _Series
    running: _Series
    kv_use: _Series | None = None


_TRITON, _KV_BLOCKS = b"nv_trt_llm_request_metrics", b"nv_trt_llm_kv_cache_block_metrics"
NAMES: Mapping[str, _Names] = {
    "vllm": _Names(
        _Series(b"vllm:num_requests_waiting"),
        _Series(b"vllm:num_requests_running"),
        _Series(b"vllm:kv_cache_usage_perc"),
    ),
    "sglang": _Names(
        _Series(b"sglang:num_queue_reqs"), _Series(b"sglang:num_running_reqs"), _Series(b"sglang:token_usage")
    ),
    "trtllm": _Names(
        _Series(b"trtllm_num_requests_waiting"),
        _Series(b"trtllm_num_requests_running"),
        _Series(b"trtllm_kv_cache_utilization"),
    ),
    "llamacpp": _Names(_Series(b"llamacpp:requests_deferred"), _Series(b"llamacpp:requests_processing")),
    "tgi": _Names(_Series(b"tgi_queue_size"), _Series(b"tgi_batch_current_size")),
    "triton_trtllm": _Names(
        _Series(_TRITON, b'request_type="waiting"'),
        _Series(_TRITON, b'request_type="scheduled"'),
        _Series(_KV_BLOCKS, b'kv_cache_block_type="fraction"'),
    ),
}
"""By kind of server."""


def read_signals(page: bytes, at_s: float) -> Signals:
    """The signals of a Prometheus page. Requests are added up over the engines of one server, KV use is their mean.

    A page is searched for few names instead of parsed, because it has up to 100 kB and is read several times a second.
    """
    page = b"\n" + page
    for names in NAMES.values():
        waiting, running = list(_values(page, names.waiting)), list(_values(page, names.running))
        if waiting or running:
            kv_use = list(_values(page, names.kv_use)) if names.kv_use else []
            return Signals(
                at_s,
                sum(waiting) if waiting else None,
                sum(running) if running else None,
                min(1.0, sum(kv_use) / len(kv_use)) if kv_use else None,
            )
    return Signals(at_s)


def _values(page: bytes, series: _Series) -> Iterator[float]:
    """The values of `series` that are numbers of at least 0. A label's value may have any character but a line's end."""
    start = b"\n" + series.name
    at = page.find(start)
    while at >= 0:
        rest = at + len(start)
        end = page.find(b"\n", rest)
        line = page[rest:] if end < 0 else page[rest:end]
        if line[:1] in (b"{", b" "):
            labels, _, sample = line.rpartition(b"}") if line[:1] == b"{" else (b"", b"", line)
            number = sample.split()[:1]  # a time may follow
            try:
                value = float(number[0]) if number else -1.0
            except ValueError:
                value = -1.0
            if 0 <= value < float("inf") and series.label in labels:
                yield value
        at = page.find(start, rest)
