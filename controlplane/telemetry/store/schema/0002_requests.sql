-- The latency ledger: one row per request, identity (trace_id, request_id). The highest version counts. A withdrawn version (later spans
-- showed the request to be part of another one) hides the earlier ones, and FINAL leaves it out.
-- Ordered by the entry span's start, which no amendment changes (start_ns may change): a row's key is stable, a window is a range of the
-- key, and parts written one after the other hardly overlap, so that FINAL merges little.
-- Times and stages, which every chart reads, are packed by T64 alone: within a tenth of ZSTD's size, and four times faster to read.
-- Granules and blocks are small, because a page of the slowest requests reads single rows.
CREATE TABLE IF NOT EXISTS {database}.requests {on_cluster}
(
    trace_id         FixedString(16) CODEC(NONE),
    request_id       FixedString(8) CODEC(NONE),
    version          UInt64 CODEC(Delta, ZSTD(3)),
    withdrawn        UInt8 CODEC(ZSTD(3)),
    entry_start_ns   UInt64 CODEC(Delta, LZ4),
    start_ns         UInt64 CODEC(Delta, LZ4),
    e2e_ns           UInt64 CODEC(T64),
    end_ns           UInt64 ALIAS start_ns + e2e_ns,
    stage_network    UInt64 CODEC(T64),
    stage_gateway    UInt64 CODEC(T64),
    stage_tokenizer  UInt64 CODEC(T64),
    stage_cache      UInt64 CODEC(T64),
    stage_queue      UInt64 CODEC(T64),
    stage_model      UInt64 CODEC(T64),
    stage_egress     UInt64 CODEC(T64),
    unattributed_ns  UInt64 CODEC(T64),
    prefill_ns       UInt64 CODEC(T64, ZSTD(3)),
    decode_ns        UInt64 CODEC(T64, ZSTD(3)),
    ttft_ns          Nullable(UInt64) CODEC(T64),
    ttft_definition  LowCardinality(String) CODEC(ZSTD(3)),
    status           LowCardinality(String) CODEC(ZSTD(3)),
    http_status      Nullable(UInt16) CODEC(ZSTD(3)),
    error_type       LowCardinality(String) CODEC(ZSTD(3)),
    error_stage      LowCardinality(String) CODEC(ZSTD(3)),
    operation        LowCardinality(String) CODEC(ZSTD(3)),
    service          LowCardinality(String) CODEC(ZSTD(3)),
    model            LowCardinality(String) CODEC(ZSTD(3)),
    variant          LowCardinality(String) CODEC(ZSTD(3)),
    pool             LowCardinality(String) CODEC(ZSTD(3)),
    replica          LowCardinality(String) CODEC(ZSTD(3)),
    region           LowCardinality(String) CODEC(ZSTD(3)),
    tier             LowCardinality(String) CODEC(ZSTD(3)),
    tenant           LowCardinality(String) CODEC(ZSTD(3)),
    prompt_bucket    LowCardinality(String) CODEC(ZSTD(3)),
    prompt_tokens    Nullable(UInt32) CODEC(T64, ZSTD(3)),
    output_tokens    Nullable(UInt32) CODEC(T64, ZSTD(3)),
    cache_outcome    LowCardinality(String) CODEC(ZSTD(3)),
    stream           Bool CODEC(ZSTD(3)),
    cold_start       Bool CODEC(ZSTD(3)),
    cost_usd         Nullable(Float64) CODEC(ZSTD(3)),
    policy_version   Nullable(UInt64) CODEC(ZSTD(3)),
    span_count       UInt32 CODEC(T64, ZSTD(3)),
    adapter          LowCardinality(String) CODEC(ZSTD(3)),
    critical_path    Array(FixedString(8)) CODEC(ZSTD(3)),
    INDEX by_trace trace_id TYPE bloom_filter(0.001) GRANULARITY 1
)
ENGINE = {replacing}(version, withdrawn)
PARTITION BY intDiv(entry_start_ns, 86400000000000)
ORDER BY (entry_start_ns, trace_id, request_id)
TTL toDateTime(intDiv(entry_start_ns, 1000000000)) + INTERVAL {retention_days} DAY
SETTINGS ttl_only_drop_parts = 1, index_granularity = 2048, min_compress_block_size = 16384
