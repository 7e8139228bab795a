-- What objectives counted, by hour: kept longer than the ledger, so that a quarter has a budget, and a restart needs no recount.
-- `definition` is a digest of what is counted; one row holds every value that it is split by, so a row's presence says "counted".
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
