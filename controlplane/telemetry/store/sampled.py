"""What `request_samples` has: one trace in SAMPLED with all its requests, of which it has these columns."""

SAMPLED = 8
COLUMNS = (
    "trace_id", "request_id", "version", "withdrawn", "entry_start_ns", "e2e_ns", "stage_retrieval", "stage_rerank", "stage_network",
    "stage_gateway", "stage_tokenizer", "stage_cache", "stage_queue", "stage_model", "stage_egress", "unattributed_ns", "status",
    "http_status", "error_stage", "operation", "service", "model", "variant", "pool", "replica", "region", "tier", "tenant",
    "prompt_bucket", "prompt_tokens", "output_tokens", "cache_outcome", "cold_start", "policy_rule", "degraded", "attempt_pool",
    "attempt_replica", "attempt_outcome", "attempt_model_ns",
)  # fmt: skip
"""Those that filters of dimensions, explanations and causes read, because each costs a third of a millisecond of every insert."""
