-- The counts of objectives by hour. They are kept longer than the ledger, so that a quarter has an error budget and a restart needs no recount.
-- `definition` is a digest of what is counted. One row has all values that the count is split by, so a row means that the hour is counted.
CREATE TABLE IF NOT EXISTS {database}.tallies {on_cluster}
(
    definition LowCardinality(String) CODEC(ZSTD(3)),
    hour       UInt32 CODEC(Delta, ZSTD(3)),
    version    UInt64 CODEC(Delta, ZSTD(3)),
    splits     Array(String) CODEC(ZSTD(3)),
    bad        Array(UInt32) CODEC(ZSTD(3)),
    total      Array(UInt32) CODEC(ZSTD(3))
)
ENGINE = {replacing}(version)
ORDER BY (definition, hour)
TTL toDateTime(hour * 3600) + INTERVAL 13 MONTH
