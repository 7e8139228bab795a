-- Loads of models into servers, as their own spans say: cold starts without the time before the server began. A load that is sent again
-- replaces the earlier one.
CREATE TABLE IF NOT EXISTS {database}.model_loads {on_cluster}
(
    trace_id    FixedString(16) CODEC(NONE),
    span_id     FixedString(8) CODEC(NONE),
    start_ns    UInt64 CODEC(Delta, ZSTD(1)),
    duration_ns UInt64 CODEC(T64, ZSTD(1)),
    adapter     LowCardinality(String),
    service     LowCardinality(String),
    model       LowCardinality(String),
    pool        LowCardinality(String),
    replica     String
)
ENGINE = {replacing}(duration_ns)
ORDER BY (start_ns, trace_id, span_id)
TTL toDateTime(intDiv(start_ns, 1000000000)) + INTERVAL {rollup_retention_days} DAY
