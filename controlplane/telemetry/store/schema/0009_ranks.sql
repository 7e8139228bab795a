-- The half-hour sort: times of past half hours of the ledger (`piece`: half hours since the epoch), sorted, so that long pages need not
-- read every request (read/presorted.py). `touched` counts the rows written by half hour of entry time, whoever writes them. A build of
-- a half hour is used only while that count is what it was when the build was made. `touched` is kept two days longer than requests,
-- which are dropped by the day, because a half hour without a count is taken for empty.
CREATE TABLE IF NOT EXISTS {database}.touched {on_cluster}
(
    piece   UInt32,
    touches UInt64
)
ENGINE = {summing}(touches)
ORDER BY piece
TTL toDateTime(piece * {half_hour_s} + 172800) + INTERVAL {retention_days} DAY
;
CREATE MATERIALIZED VIEW IF NOT EXISTS {database}.touches {on_cluster} TO {database}.touched
AS SELECT toUInt32(intDiv(entry_start_ns, {half_hour_s} * 1000000000)) AS piece, count() AS touches FROM {database}.requests GROUP BY piece
;
-- Count the rows written before the view was made.
INSERT INTO {database}.touched
SELECT toUInt32(intDiv(entry_start_ns, {half_hour_s} * 1000000000)) AS piece, count() AS touches FROM {database}.requests GROUP BY piece
;
-- One row per finished build; the last build of a half hour counts. `ofs` says what each measure is of: 'e2e' and 'failed' of a model,
-- 'ttft' of a definition, a stage of ''. Each measure in turn has as many bins as `widths` says, and `counts` the number of values in each.
-- `sums` has, for each bin of each 'e2e', the parts of its requests' time.
CREATE TABLE IF NOT EXISTS {database}.ranked {on_cluster}
(
    piece     UInt32,
    build     UInt64,
    touches   UInt64,
    newest_ns UInt64,
    measures  Array(LowCardinality(String)) CODEC(ZSTD(1)),
    ofs       Array(LowCardinality(String)) CODEC(ZSTD(1)),
    widths    Array(UInt16) CODEC(ZSTD(1)),
    bins      Array(UInt16) CODEC(Delta, ZSTD(1)),
    counts    Array(UInt32) CODEC(ZSTD(1)),
    sums      Array(UInt64) CODEC(ZSTD(1))
)
ENGINE = {replacing}(build)
ORDER BY piece
TTL toDateTime(piece * {half_hour_s}) + INTERVAL {retention_days} DAY
SETTINGS index_granularity = 64
;
-- The values of a bin, in order, and for 'e2e' the parts of each, one part after the other. A query opens a few bins of many builds, so
-- these lie together. Granules are small, because one row has hundreds of values.
CREATE TABLE IF NOT EXISTS {database}.ranks {on_cluster}
(
    piece   UInt32 CODEC(ZSTD(1)),
    build   UInt64 CODEC(ZSTD(1)),
    measure LowCardinality(String) CODEC(ZSTD(1)),
    of      LowCardinality(String) CODEC(ZSTD(1)),
    bin     UInt16 CODEC(ZSTD(1)),
    values  Array(UInt64) CODEC(T64, LZ4),
    parts   Array(UInt64) CODEC(T64, LZ4)
)
ENGINE = {plain}
PARTITION BY intDiv(piece * {half_hour_s}, 86400)
ORDER BY (measure, bin, of, build)
TTL toDateTime(piece * {half_hour_s}) + INTERVAL {retention_days} DAY
SETTINGS ttl_only_drop_parts = 1, index_granularity = 16, min_compress_block_size = 16384, min_bytes_for_wide_part = 0
