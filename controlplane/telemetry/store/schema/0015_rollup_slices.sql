-- Rollups by one dimension (`of`, with its `value`) or by none (`of` is empty), so that long pages without filters, or with those of one
-- dimension, read few rows. They are made of `rollups` and have its builds. Steps below 300 s have none.
CREATE TABLE IF NOT EXISTS {database}.rollup_slices {on_cluster}
(
    build            UInt64 CODEC(ZSTD(1)),
    step_s           UInt32 CODEC(ZSTD(1)),
    start_s          UInt32 CODEC(Delta, ZSTD(1)),
    of               LowCardinality(String) CODEC(ZSTD(1)),
    value            LowCardinality(String) CODEC(ZSTD(1)),
    status           LowCardinality(String) CODEC(ZSTD(1)),
    ttft_definition  LowCardinality(String) CODEC(ZSTD(1)),
    requests         UInt64 CODEC(T64, ZSTD(1)),
    unmeasured       UInt64 CODEC(T64, ZSTD(1)),
    newest_ns        UInt64 CODEC(Delta, ZSTD(1)),
    e2e_bins         Array(UInt16) CODEC(Delta, ZSTD(1)),
    e2e_counts       Array(UInt32) CODEC(T64, ZSTD(1)),
    ttft_bins        Array(UInt16) CODEC(Delta, ZSTD(1)),
    ttft_counts      Array(UInt32) CODEC(T64, ZSTD(1)),
    part_bins        Array(UInt16) CODEC(Delta, ZSTD(1)),
    part_counts      Array(UInt32) CODEC(T64, ZSTD(1)),
    band_bins        Array(UInt16) CODEC(Delta, ZSTD(1)),
    band_network     Array(UInt64) CODEC(T64, ZSTD(1)),
    band_gateway     Array(UInt64) CODEC(T64, ZSTD(1)),
    band_tokenizer   Array(UInt64) CODEC(T64, ZSTD(1)),
    band_cache       Array(UInt64) CODEC(T64, ZSTD(1)),
    band_queue       Array(UInt64) CODEC(T64, ZSTD(1)),
    band_model       Array(UInt64) CODEC(T64, ZSTD(1)),
    band_egress      Array(UInt64) CODEC(T64, ZSTD(1)),
    band_unattributed Array(UInt64) CODEC(T64, ZSTD(1))
)
ENGINE = {plain}
PARTITION BY (step_s, intDiv(start_s, if(step_s < 3600, 21600, 2592000)))
ORDER BY (step_s, of, value, start_s, status, ttft_definition)
TTL toDateTime(greatest(start_s, toUInt32(intDiv(build, 1000000000)))) + toIntervalHour(if(step_s < 3600, {kept_h_300}, 24 * {rollup_retention_days}))
SETTINGS ttl_only_drop_parts = 1, index_granularity = 128
;
-- Builds from before have no slices: everything is built again, the newest first.
TRUNCATE TABLE IF EXISTS {database}.rollup_builds {on_cluster}
