-- Metrics. One row per sample, identity (series, time_ns): a sample sent again replaces itself, and of two values for one time the later
-- sent counts. Ordered by series, so that each is one contiguous range of steady times (DoubleDelta) and near values (Gorilla).
-- start_ns is since when a counter counts, where its sender says so, else 0.
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
-- What each series is. Written again every hour while it lives; kept a day longer than its last sample.
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
-- Every attempt to scrape a target: its state is the newest, an event is where `up` changes.
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
