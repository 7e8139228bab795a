"""The queue of a batching server, with which llm-d's law finds what a replica carries."""

from typing import NamedTuple

from forecasting.simulate.compiled import compiled


class BatchingServer(NamedTuple):
    """A server that works on up to `max_batch` requests at once, each the slower the more there are, with a queue of `max_queue`.

    An iteration of n requests takes α + n (β · computed + γ · remembered) seconds, where a request's iterations compute
    (in + out) / (out + 1) tokens and read in + out / 2 of the cache, on average.
    """

    alpha_s: float
    beta_s: float
    gamma_s: float
    max_batch: int
    max_queue: int
    input_tokens: float
    output_tokens: float


@compiled
def _iteration_s(server: BatchingServer, batch: float) -> float:
    computed = (server.input_tokens + server.output_tokens) / (server.output_tokens + 1)
    remembered = server.input_tokens + server.output_tokens / 2
    return server.alpha_s + batch * (server.beta_s * computed + server.gamma_s * remembered)


@compiled
def _prefill_s(server: BatchingServer, batch: float) -> float:
    if server.input_tokens == 0:
        return 0.0
    return _iteration_s(server, batch) + (server.beta_s + server.gamma_s) * server.input_tokens


@compiled
def _service_rate(server: BatchingServer, batch: int) -> float:
    remembered = server.input_tokens + server.output_tokens / 2
    token_s = _iteration_s(server, batch) + server.beta_s + server.gamma_s * remembered
    return batch / (_prefill_s(server, batch) + server.output_tokens * token_s)


@compiled
def batching_latency_s(server: BatchingServer, rate_rps: float) -> tuple[float, float]:
    """Mean time to first token and between tokens of the server at this arrival rate, in seconds.

    An M/M/1 queue of bounded length whose service rate depends on its state: llm-inferno/queue-analysis at 2436d94,
    pkg/analyzer/queueanalyzer.go (Analyze, EvalTTFT, EvalITL), which llm-d's Workload Variant Autoscaler uses.
    """
    probability, total, in_system, in_service, served = 1.0, 1.0, 0.0, 0.0, 0.0
    rate = 0.0
    for count in range(1, server.max_batch + server.max_queue + 1):
        if count <= server.max_batch:
            rate = _service_rate(server, count)
        probability *= rate_rps / rate
        if total > 1e200:  # only ratios count
            probability, total, in_system, in_service, served = (
                probability / total,
                1.0,
                in_system / total,
                in_service / total,
                served / total,
            )
        total += probability
        in_system += probability * count
        in_service += probability * min(count, server.max_batch)
        served += probability * rate
    throughput = served / total
    batch = in_service / total
    service_s = batch / throughput
    wait_s = in_system / total / throughput - service_s
    prefill_s = _prefill_s(server, batch)
    token_s = (service_s - prefill_s) / server.output_tokens
    return wait_s + prefill_s + token_s, token_s


@compiled
def batching_capacity_rps(server: BatchingServer, ttft_s: float, itl_s: float) -> float:
    """The highest arrival rate at which both mean latencies are within their targets; 0 where they never are.

    0 is no target. By bisection between 0.1 % of the rate of a single request and 99.9 % of that of a full batch: Size of the
    same file.
    """
    low = _service_rate(server, 1) * 1e-3
    high = _service_rate(server, server.max_batch) * (1 - 1e-3)
    for step in range(41):
        rate = high if step == 0 else (low + high) / 2
        ttft, itl = batching_latency_s(server, rate)
        if (ttft_s <= 0 or ttft <= ttft_s) and (itl_s <= 0 or itl <= itl_s):
            if step == 0:
                return high
            low = rate
        elif step > 0:
            high = rate
    ttft, itl = batching_latency_s(server, low)
    return low if (ttft_s <= 0 or ttft <= ttft_s) and (itl_s <= 0 or itl <= itl_s) else 0.0
