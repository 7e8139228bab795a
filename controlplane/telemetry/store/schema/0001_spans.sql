-- One row per span, identity (trace_id, span_id). A span that is sent again replaces the earlier one; of different copies the longer counts.
-- Ordered by trace, so that a trace is one range, and then by time, so that similar traces lie alike and compress well.
-- Granules are small: reading one trace decompresses a thousand spans, not eight thousand. By day, so that retention drops whole parts.
-- Attribute values are text. A value that is not a string, or begins with \x01, is stored as \x01 and its JSON.
CREATE TABLE IF NOT EXISTS {database}.spans {on_cluster}
(
    trace_id      FixedString(16) CODEC(ZSTD(3)),
    span_id       FixedString(8) CODEC(NONE),
    parent_id     FixedString(8) CODEC(ZSTD(3)),
    start_ns      UInt64 CODEC(Delta, ZSTD(3)),
    duration_ns   UInt64 CODEC(T64, ZSTD(3)),
    kind          UInt8 CODEC(ZSTD(3)),
    status_code   UInt8 CODEC(ZSTD(3)),
    name          LowCardinality(String) CODEC(ZSTD(3)),
    service       LowCardinality(String) CODEC(ZSTD(3)),
    scope         LowCardinality(String) CODEC(ZSTD(3)),
    attributes    Map(LowCardinality(String), String) CODEC(ZSTD(3)),
    event_after   Array(Int64) CODEC(ZSTD(3)),
    event_name    Array(LowCardinality(String)) CODEC(ZSTD(3)),
    event_attributes Array(Map(LowCardinality(String), String)) CODEC(ZSTD(3))
)
ENGINE = {replacing}(duration_ns)
PARTITION BY intDiv(start_ns, 86400000000000)
PRIMARY KEY trace_id
ORDER BY (trace_id, start_ns, span_id)
TTL toDateTime(intDiv(start_ns, 1000000000)) + INTERVAL {retention_days} DAY
SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024
