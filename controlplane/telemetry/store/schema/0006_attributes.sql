-- 64-bit hashes of the attributes of a request's spans (ledger/attribute_index.py), by which a row is found. The index skips granules
-- without the hash. Rows written before this schema have none.
ALTER TABLE {database}.requests {on_cluster}
    ADD COLUMN IF NOT EXISTS attributes Array(UInt64) CODEC(ZSTD(3)),
    ADD INDEX IF NOT EXISTS by_attribute attributes TYPE bloom_filter(0.01) GRANULARITY 1
