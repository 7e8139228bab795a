-- Times of the ledger's finished pieces, sorted, so that a long page need not read every request (ranks.py). A copy: what is asked of it
-- is what `requests` would answer, or it is not asked. `touched` counts rows written by piece of entry time, whoever writes them;
-- a build of a piece is good for as long as no more were written than when it was made. What is not there counts as empty: `touched` is
-- kept two days longer than requests are, which are dropped by the day.
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
-- Rows written before, of which the view has not heard.
INSERT INTO {database}.touched
SELECT toUInt32(intDiv(entry_start_ns, {half_hour_s} * 1000000000)) AS piece, count() AS touches FROM {database}.requests GROUP BY piece
;
-- One row per finished build; of several of a piece the last counts. A measure is of something: 'e2e' and 'failed' of a model, 'ttft' of a
-- definition, a stage of ''. Of each in turn as many bins as `widths` says, with how many values are in each.
-- `sums`: for each bin of each 'e2e', the parts of its requests' time.
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
-- The values of a bin, in order, and of 'e2e' the parts that each is made of, a part after the other. A question opens a few bins of many
-- builds, so these lie together; granules are small because one row holds hundreds of values.
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
