-- Metric samples, identity (series, time_ns). A sample that is sent again replaces the earlier one. Ordered by series, so that each series
-- is one range of steady times (DoubleDelta) and close values (Gorilla). start_ns is the start of a counter, if its sender gives one, else 0.
CREATE TABLE IF NOT EXISTS {database}.samples {on_cluster}
(
    series   UInt64 CODEC(Delta, ZSTD(1)),
    time_ns  Int64 CODEC(DoubleDelta, ZSTD(1)),
    start_ns Int64 CODEC(Delta, ZSTD(1)),
    value    Float64 CODEC(Gorilla, ZSTD(1))
)
ENGINE = {replacing}()
PARTITION BY intDiv(time_ns, 86400000000000)
ORDER BY (series, time_ns)
TTL toDateTime(intDiv(time_ns, 1000000000)) + INTERVAL {retention_days} DAY
SETTINGS ttl_only_drop_parts = 1
;
-- The name and labels of each series. Written every hour while it has samples; kept a day longer than its last sample.
CREATE TABLE IF NOT EXISTS {database}.series {on_cluster}
(
    metric  LowCardinality(String) CODEC(ZSTD(3)),
    series  UInt64 CODEC(ZSTD(3)),
    kind    LowCardinality(String) CODEC(ZSTD(3)),
    unit    LowCardinality(String) CODEC(ZSTD(3)),
    delta   Bool CODEC(ZSTD(3)),
    labels  Map(LowCardinality(String), String) CODEC(ZSTD(3)),
    seen_ns Int64 CODEC(Delta, ZSTD(3))
)
ENGINE = {replacing}(seen_ns)
ORDER BY (metric, series)
TTL toDateTime(intDiv(seen_ns, 1000000000) + 86400) + INTERVAL {retention_days} DAY
;
-- Every scrape of a target. The newest is the target's state; an event is a change of `up`.
CREATE TABLE IF NOT EXISTS {database}.scrapes {on_cluster}
(
    time_ns     Int64 CODEC(DoubleDelta, ZSTD(1)),
    job         LowCardinality(String) CODEC(ZSTD(3)),
    instance    LowCardinality(String) CODEC(ZSTD(3)),
    url         LowCardinality(String) CODEC(ZSTD(3)),
    up          Bool CODEC(ZSTD(3)),
    duration_ns UInt64 CODEC(T64, ZSTD(1)),
    samples     UInt32 CODEC(T64, ZSTD(1)),
    error       String CODEC(ZSTD(3))
)
ENGINE = {replacing}()
PARTITION BY intDiv(time_ns, 86400000000000)
ORDER BY (job, instance, time_ns)
TTL toDateTime(intDiv(time_ns, 1000000000)) + INTERVAL {retention_days} DAY
SETTINGS ttl_only_drop_parts = 1
