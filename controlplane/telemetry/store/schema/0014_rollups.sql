-- Rows written by five minutes (`stretch`: five minutes since the epoch) in which their request was under way, whoever writes them; at most
-- an hour from its entry. A build of a stretch counts as current while this is what it was when the build was made.
CREATE TABLE IF NOT EXISTS {database}.rollup_touched {on_cluster}
(
    stretch UInt32,
    touches UInt64
)
ENGINE = {summing}(touches)
ORDER BY stretch
TTL toDateTime(stretch * 300) + INTERVAL {rollup_retention_days} DAY
;
CREATE MATERIALIZED VIEW IF NOT EXISTS {database}.rollup_touches {on_cluster} TO {database}.rollup_touched
AS SELECT
    toUInt32(arrayJoin(range(intDiv(entry_start_ns, 300000000000),
        greatest(intDiv(entry_start_ns, 300000000000), least(intDiv(start_ns + e2e_ns, 300000000000), intDiv(entry_start_ns, 300000000000) + 12)) + 1))) AS stretch,
    count() AS touches
FROM {database}.requests GROUP BY stretch
;
-- Count the rows written before the view was made.
INSERT INTO {database}.rollup_touched
SELECT
    toUInt32(arrayJoin(range(intDiv(entry_start_ns, 300000000000),
        greatest(intDiv(entry_start_ns, 300000000000), least(intDiv(start_ns + e2e_ns, 300000000000), intDiv(entry_start_ns, 300000000000) + 12)) + 1))) AS stretch,
    count() AS touches
FROM {database}.requests GROUP BY stretch
;
-- The finished builds: the highest `version` of a stretch counts. `rollups` and `demand` have rows of other builds too, which replaced or
-- unfinished ones left; a reader takes `build IN (SELECT build FROM rollup_builds FINAL …)`. `touches` is the sum of rollup_touched over
-- [start_s, start_s + its length) when the build was made.
CREATE TABLE IF NOT EXISTS {database}.rollup_builds {on_cluster}
(
    kind      LowCardinality(String),
    step_s    UInt32,
    start_s   UInt32,
    version   UInt64,
    build     UInt64,
    touches   UInt64
)
ENGINE = {replacing}(version)
ORDER BY (kind, step_s, start_s)
TTL toDateTime(start_s) + INTERVAL {rollup_retention_days} DAY
SETTINGS index_granularity = 1024
;
-- Requests by step of entry time and dimensions. Steps of 60 s are kept for hours, of 300 and 1800 s for two days, of 3600 s for ten, longer ones for
-- the rollups' retention. The time counts from the build where that is later, so that rows of old requests stay until coarser ones are made of them.
-- Histograms are of answered requests (status `ok`), as two arrays: bins in order, and how many values each holds. A bin is
-- (value >> e) + 128 e with e = max(bit length - 8, 0), so at most 0.8 % wide. `part_bins` has all parts of the time in one: part * 8192
-- + bin, parts in the order of `PARTS`. `band_bins` are E2E bins >> 3, with the sums of each part of their requests in `band_*`,
-- µs within 0.2 %.
-- `busy_ns` is the time of all requests within the step, whenever they entered: over the step, it is the mean concurrency.
CREATE TABLE IF NOT EXISTS {database}.rollups {on_cluster}
(
    build            UInt64 CODEC(ZSTD(1)),
    step_s           UInt32 CODEC(ZSTD(1)),
    start_s          UInt32 CODEC(Delta, ZSTD(1)),
    model            LowCardinality(String) CODEC(ZSTD(1)),
    variant          LowCardinality(String) CODEC(ZSTD(1)),
    pool             LowCardinality(String) CODEC(ZSTD(1)),
    tier             LowCardinality(String) CODEC(ZSTD(1)),
    region           LowCardinality(String) CODEC(ZSTD(1)),
    cache_outcome    LowCardinality(String) CODEC(ZSTD(1)),
    status           LowCardinality(String) CODEC(ZSTD(1)),
    ttft_definition  LowCardinality(String) CODEC(ZSTD(1)),
    requests         UInt64 CODEC(T64, ZSTD(1)),
    unmeasured       UInt64 CODEC(T64, ZSTD(1)),
    cold_starts      UInt64 CODEC(T64, ZSTD(1)),
    input_tokens     UInt64 CODEC(T64, ZSTD(1)),
    input_known      UInt64 CODEC(T64, ZSTD(1)),
    output_tokens    UInt64 CODEC(T64, ZSTD(1)),
    output_known     UInt64 CODEC(T64, ZSTD(1)),
    cost_usd         Float64 CODEC(ZSTD(1)),
    busy_ns          UInt64 CODEC(T64, ZSTD(1)),
    e2e_ns           UInt64 CODEC(T64, ZSTD(1)),
    ttft_ns          UInt64 CODEC(T64, ZSTD(1)),
    ttft_known       UInt64 CODEC(T64, ZSTD(1)),
    stage_network    UInt64 CODEC(T64, ZSTD(1)),
    stage_gateway    UInt64 CODEC(T64, ZSTD(1)),
    stage_tokenizer  UInt64 CODEC(T64, ZSTD(1)),
    stage_cache      UInt64 CODEC(T64, ZSTD(1)),
    stage_queue      UInt64 CODEC(T64, ZSTD(1)),
    stage_model      UInt64 CODEC(T64, ZSTD(1)),
    stage_egress     UInt64 CODEC(T64, ZSTD(1)),
    unattributed_ns  UInt64 CODEC(T64, ZSTD(1)),
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
PARTITION BY (step_s, intDiv(start_s, multiIf(step_s = 60, 7200, step_s < 3600, 21600, step_s = 3600, 172800, 2592000)))
ORDER BY (step_s, start_s, model, variant, pool, tier, region, cache_outcome, status, ttft_definition)
TTL toDateTime(greatest(start_s, toUInt32(intDiv(build, 1000000000)))) + toIntervalHour(multiIf(step_s = 60, {kept_h_60}, step_s < 3600, {kept_h_300}, step_s = 3600, {kept_h_3600}, 24 * {rollup_retention_days}))
SETTINGS ttl_only_drop_parts = 1, index_granularity = 128
;
-- What was asked for by five minutes, for forecasts. `requests` are all, of which `shed` were rejected and `from_cache` answered by the cache
-- or with another request; `cached_*` tokens are those of the latter, and within `*_tokens`. `*_known` is how many requests have that number.
CREATE TABLE IF NOT EXISTS {database}.demand {on_cluster}
(
    build                UInt64 CODEC(Delta, ZSTD(1)),
    model                LowCardinality(String) CODEC(ZSTD(1)),
    tier                 LowCardinality(String) CODEC(ZSTD(1)),
    region               LowCardinality(String) CODEC(ZSTD(1)),
    start_s              UInt32 CODEC(Delta, ZSTD(1)),
    requests             UInt32 CODEC(T64, ZSTD(1)),
    shed                 UInt32 CODEC(T64, ZSTD(1)),
    failed               UInt32 CODEC(T64, ZSTD(1)),
    cancelled            UInt32 CODEC(T64, ZSTD(1)),
    from_cache           UInt32 CODEC(T64, ZSTD(1)),
    input_tokens         UInt64 CODEC(T64, ZSTD(1)),
    input_known          UInt32 CODEC(T64, ZSTD(1)),
    output_tokens        UInt64 CODEC(T64, ZSTD(1)),
    output_known         UInt32 CODEC(T64, ZSTD(1)),
    cached_input_tokens  UInt64 CODEC(T64, ZSTD(1)),
    cached_output_tokens UInt64 CODEC(T64, ZSTD(1))
)
ENGINE = {plain}
PARTITION BY intDiv(start_s, 2592000)
ORDER BY (model, tier, region, start_s)
TTL toDateTime(start_s) + INTERVAL {rollup_retention_days} DAY
SETTINGS ttl_only_drop_parts = 1
;
-- For how long requests were recorded, s by five minutes; together more where several processes receive. Five minutes without a row are a gap.
CREATE TABLE IF NOT EXISTS {database}.recorded {on_cluster}
(
    start_s    UInt32,
    recorded_s Float32
)
ENGINE = {summing}(recorded_s)
ORDER BY start_s
TTL toDateTime(start_s) + INTERVAL {rollup_retention_days} DAY
;
-- Before this table, telemetry was at work where there are requests, or scrapes of its targets.
INSERT INTO {database}.recorded
SELECT start_s, 300 FROM (
    SELECT toUInt32(intDiv(entry_start_ns, 300000000000) * 300) AS start_s FROM {database}.requests
    UNION DISTINCT
    SELECT toUInt32(intDiv(time_ns, 300000000000) * 300) AS start_s FROM {database}.scrapes
)
