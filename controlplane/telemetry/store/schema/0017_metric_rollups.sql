-- Samples written by five minutes (`stretch`: five minutes since the epoch). A build of a stretch is up to date while this is its `touches`.
CREATE TABLE IF NOT EXISTS {database}.metric_touched {on_cluster}
(
    stretch UInt32,
    touches UInt64
)
ENGINE = {summing}(touches)
ORDER BY stretch
TTL toDateTime(stretch * 300) + INTERVAL {rollup_retention_days} DAY
;
CREATE MATERIALIZED VIEW IF NOT EXISTS {database}.metric_touches {on_cluster} TO {database}.metric_touched
AS SELECT toUInt32(intDiv(time_ns, 300000000000)) AS stretch, count() AS touches FROM {database}.samples GROUP BY stretch
;
-- Count the samples written before the view was made.
INSERT INTO {database}.metric_touched
SELECT toUInt32(intDiv(time_ns, 300000000000)) AS stretch, count() AS touches FROM {database}.samples GROUP BY stretch
;
-- Gauges of load (maintenance/rollup_sql.py names them) by step: rows of `build`s, of which `rollup_builds` says which count, with kind
-- 'metrics'. Steps of 60 s are kept 35 days. The names and labels of a series are kept as long as its samples.
CREATE TABLE IF NOT EXISTS {database}.metric_rollups {on_cluster}
(
    build   UInt64 CODEC(Delta, ZSTD(1)),
    step_s  UInt32 CODEC(ZSTD(1)),
    metric  LowCardinality(String) CODEC(ZSTD(1)),
    labels  Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    series  UInt64 CODEC(Delta, ZSTD(1)),
    start_s UInt32 CODEC(DoubleDelta, ZSTD(1)),
    samples UInt32 CODEC(T64, ZSTD(1)),
    least   Float64 CODEC(Gorilla, ZSTD(1)),
    mean    Float64 CODEC(Gorilla, ZSTD(1)),
    most    Float64 CODEC(Gorilla, ZSTD(1)),
    last    Float64 CODEC(Gorilla, ZSTD(1))
)
ENGINE = {plain}
PARTITION BY (step_s, intDiv(start_s, 604800))
ORDER BY (step_s, metric, series, start_s)
TTL toDateTime(start_s) + toIntervalHour(if(step_s = 60, 840, 24 * {rollup_retention_days}))
SETTINGS ttl_only_drop_parts = 1
