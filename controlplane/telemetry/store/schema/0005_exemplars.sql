-- Measurements of a series that name their trace. Identity (series, time_ns, trace_id): an exemplar that is sent or scraped again counts
-- once. Ids are random and do not compress: some 40 bytes a row, but there are far fewer than samples.
CREATE TABLE IF NOT EXISTS {database}.exemplars {on_cluster}
(
    series   UInt64 CODEC(Delta, ZSTD(1)),
    time_ns  Int64 CODEC(DoubleDelta, ZSTD(1)),
    value    Float64 CODEC(Gorilla, ZSTD(1)),
    trace_id FixedString(16) CODEC(NONE),
    span_id  FixedString(8) CODEC(ZSTD(1))
)
ENGINE = {replacing}()
PARTITION BY intDiv(time_ns, 86400000000000)
ORDER BY (series, time_ns, trace_id)
TTL toDateTime(intDiv(time_ns, 1000000000)) + INTERVAL {retention_days} DAY
SETTINGS ttl_only_drop_parts = 1
