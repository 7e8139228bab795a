"""The names of the metrics in which model servers say how busy they are, and how they are read from a Prometheus page.

The names are those of vLLM (vllm/v1/metrics/loggers.py), SGLang (srt/observability/metrics_collector.py), TensorRT-LLM
(tensorrt_llm/metrics/collector.py), llama.cpp (tools/server/README.md), text-generation-inference (router/src/server.rs)
and Triton's TensorRT-LLM backend (inflight_batcher_llm/src/custom_metrics_reporter). A server whose page has none of
them, such as Triton with vLLM, is unknown.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple


class ServerLoad(NamedTuple):
    """What a model server says of its load. None is not known, which is never the same as 0.

    `at_s` is when it was read, on the event loop's clock. `adapters` are the LoRA adapters that it has loaded, of which it has room for
    `most_adapters`. `page` is the hash of the page that said it: 0 is not known.
    """

    at_s: float
    waiting: float | None = None  # requests that it has and has not begun
    running: float | None = None
    kv_use: float | None = None  # share of its KV cache that is in use, 0 to 1
    adapters: frozenset[str] | None = None
    most_adapters: int = 0
    page: int = 0

    @property
    def known(self) -> bool:
        return self.waiting is not None or self.running is not None


class Series(NamedTuple):
    """A metric's name, and the label that a series of it must have, if any. An empty label is an absent one."""

    name: str
    label: tuple[str, str] | None = None

    def has(self, metric: str, labels: Mapping[str, str]) -> bool:
        """Whether this is one of it."""
        return metric == self.name and (self.label is None or labels.get(self.label[0], "") == self.label[1])


class LoadMetrics(NamedTuple):
    """`names_model` says whether its series are labelled with the model that clients ask for, where they have such a label."""

    waiting: Series
    running: Series
    kv_use: Series | None = None
    names_model: bool = True


_TRITON = "nv_trt_llm_request_metrics"
_OF_ALL = ("priority", "")
"""The total of a SGLang that schedules by priority. The requests of each priority are series beside it."""
LOAD_METRICS: Mapping[str, LoadMetrics] = {
    "vllm": LoadMetrics(
        Series("vllm:num_requests_waiting"), Series("vllm:num_requests_running"), Series("vllm:kv_cache_usage_perc")
    ),
    "sglang": LoadMetrics(
        Series("sglang:num_queue_reqs", _OF_ALL),
        Series("sglang:num_running_reqs", _OF_ALL),
        Series("sglang:token_usage"),
    ),
    "trtllm": LoadMetrics(
        Series("trtllm_num_requests_waiting"),
        Series("trtllm_num_requests_running"),
        Series("trtllm_kv_cache_utilization"),
    ),
    "llamacpp": LoadMetrics(Series("llamacpp:requests_deferred"), Series("llamacpp:requests_processing")),
    "tgi": LoadMetrics(Series("tgi_queue_size"), Series("tgi_batch_current_size")),
    "triton_trtllm": LoadMetrics(
        Series(_TRITON, ("request_type", "waiting")),
        Series(_TRITON, ("request_type", "scheduled")),
        Series("nv_trt_llm_kv_cache_block_metrics", ("kv_cache_block_type", "fraction")),
        names_model=False,  # but its engine
    ),
}
"""By kind of server: requests that wait, requests that are worked on, and the share of the KV cache in use."""

TRITON_PENDING = Series("nv_inference_pending_request_count")
"""Requests that wait in Triton itself. Of a model whose backend has a queue of its own it is next to nothing."""

QUEUE_GAUGES = (TRITON_PENDING.name, *(kind.waiting.name for kind in LOAD_METRICS.values()))
"""The names of all gauges of requests that wait at a server."""
LOAD_GAUGES = tuple(
    dict.fromkeys(
        (
            TRITON_PENDING.name,
            *(series.name for kind in LOAD_METRICS.values() for series in kind[:3] if series is not None),
        )
    )
)
"""The names of all gauges of a server's load."""


def is_queue(metric: str, labels: Mapping[str, str]) -> bool:
    """Whether a series counts requests that wait at a server."""
    return TRITON_PENDING.has(metric, labels) or any(kind.waiting.has(metric, labels) for kind in LOAD_METRICS.values())


def is_part(metric: str, labels: Mapping[str, str]) -> bool:
    """Whether a series of a server's load is a part of a total beside it."""
    return _OF_ALL[0] in labels and any(
        series is not None and series.label == _OF_ALL and series.name == metric and not series.has(metric, labels)
        for kind in LOAD_METRICS.values()
        for series in kind[:3]
    )


def names_model(metric: str) -> bool:
    """Whether a series of a server's load is labelled with the model that clients ask for."""
    return all(kind.names_model or metric != kind.waiting.name for kind in LOAD_METRICS.values())


_ADAPTERS = re.compile(rb"\nvllm:lora_requests_info\{([^\n]*)\} ([0-9.e+]+)(?=[ \n]|$)")
"""Of vLLM (vllm/v1/metrics/loggers.py), as is the next."""
_CACHE = re.compile(rb"\nvllm:cache_config_info\{([^\n]*)\} 1")
_MAX_DIGITS = 12
_MAX_NUMBER = 10**_MAX_DIGITS
_LABEL = re.compile(rb'(\w+)="([^"\n]*)"')


class _Searched(NamedTuple):
    """A series as it stands on a page."""

    name: bytes
    label: re.Pattern[bytes]  # finds something in the labels of a series that counts


def _searched(series: Series) -> _Searched:
    name, value = series.label or ("", "")
    label = rf'[{{,]{name}="{value}"' if value else rf'^(?!.*[{{,]{name}="[^"])'
    return _Searched(b"\n" + series.name.encode(), re.compile(label.encode() if name else b""))


_SEARCHED = [
    (_searched(kind.waiting), _searched(kind.running), _searched(kind.kv_use) if kind.kv_use else None)
    for kind in LOAD_METRICS.values()
]


def read_load(page: bytes, at_s: float) -> ServerLoad:
    """The signals of a Prometheus page. Requests are added up over the engines of one server, KV use is their mean: unknown where one
    of them has no number. A last line without an end was cut, and does not count.

    A page is searched for few names instead of parsed, because it has up to 100 kB and is read several times a second.
    """
    page = b"\n" + page[: page.rfind(b"\n") + 1]
    for waits, runs, uses in _SEARCHED:
        waiting, running = list(_values(page, waits)), list(_values(page, runs))
        if waiting or running:
            kv_use = list(_values(page, uses)) if uses else []
            mean = _total(kv_use)
            return ServerLoad(
                at_s,
                _total(waiting),
                _total(running),
                min(1.0, mean / len(kv_use)) if mean is not None else None,
                *_adapters(page),
            )
    return ServerLoad(at_s)


def _total(values: list[float]) -> float | None:
    return sum(values) if values and all(map(math.isfinite, values)) else None


_IN_GATEWAY = _searched(Series("weir_gateway_requests_in_flight"))


def read_load_or_gateway(page: bytes, at_s: float) -> ServerLoad:
    """As `read_load`, also of a gateway's own page, which has requests in flight and none that wait."""
    load = read_load(page, at_s)
    in_flight = None if load.known else _total(list(_values(b"\n" + page, _IN_GATEWAY)))
    return load if in_flight is None else ServerLoad(at_s, running=in_flight)


def read_kv_tokens(page: bytes) -> int | None:
    """The tokens for which a vLLM's KV cache has room, over its engines; None where a page does not say it."""
    tokens = 0
    for series in _CACHE.finditer(b"\n" + page):
        given = {name: int(value) for name, value in _LABEL.findall(series[1]) if _is_number(value)}
        blocks = given.get(b"num_gpu_blocks", 0) * given.get(b"block_size", 0)
        tokens += given.get(b"kv_cache_size_tokens", blocks)
    return tokens or None


def _adapters(page: bytes) -> tuple[frozenset[str] | None, int]:
    """The LoRA adapters that are loaded, and the most that may be. Each set of adapters is a series of its own, whose value is when
    it was last so: the latest counts.
    """
    latest, labels = -1.0, b""
    for series in _ADAPTERS.finditer(page):
        try:
            at_s = float(series[2])
        except ValueError:
            continue
        if at_s > latest:
            latest, labels = at_s, series[1]
    if latest < 0:
        return None, 0
    given = {name.decode(): value.decode("utf-8", "replace") for name, value in _LABEL.findall(labels)}
    loaded = given.get("running_lora_adapters", "").split(",")
    most = given.get("max_lora", "")
    return frozenset(filter(None, loaded)), int(most) if _is_number(most.encode()) else 0


def _is_number(digits: bytes) -> bool:
    return digits.isdigit() and len(digits) <= _MAX_DIGITS


def _values(page: bytes, series: _Searched) -> Iterator[float]:
    """The values of `series`, NaN where one is no number of at least 0, or one that no server has. A label's value may have any
    character but a line's end.
    """
    start = series.name
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
            if series.label.search(labels):
                yield value if 0 <= value <= _MAX_NUMBER else math.nan
        at = page.find(start, rest)
