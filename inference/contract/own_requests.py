"""How the traces of requests that are no users' are recognised. The ledger leaves them out."""

BENCHMARK_TRACES = b"weir-bch"
"""How the trace id of a benchmark's request begins."""
WARM_UP_TRACES = b"weir-wup"
"""How the trace id of a warm-up begins. Triton 2.51 exports traces whose flag says that they are not sampled, and any server may."""
