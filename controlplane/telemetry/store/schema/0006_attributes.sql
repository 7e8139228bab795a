-- Hashes of the attributes of a request's spans (ledger/attribute_index.py): 64 bits each, so that a row can be found by any of them, and the
-- index passes over granules that have it in none. Rows written before have none.
ALTER TABLE {database}.requests {on_cluster}
    ADD COLUMN IF NOT EXISTS attributes Array(UInt64) CODEC(ZSTD(3)),
    ADD INDEX IF NOT EXISTS by_attribute attributes TYPE bloom_filter(0.01) GRANULARITY 1
