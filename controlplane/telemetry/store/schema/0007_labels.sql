-- Hashes of labels (values that many requests share) are stored apart, dictionary-encoded, in four columns by the hash's two lowest bits.
-- A query reads one of them. LZ4 instead of ZSTD: an eighth larger a row, but queries are a quarter faster. `attributes` keeps the other
-- hashes. Rows written before this schema have all theirs there, and the default takes them from it.
ALTER TABLE {database}.requests {on_cluster}
    ADD COLUMN IF NOT EXISTS labels_0 Array(LowCardinality(UInt64)) DEFAULT arrayFilter(token -> bitAnd(token, 3) = 0, attributes) CODEC(LZ4),
    ADD COLUMN IF NOT EXISTS labels_1 Array(LowCardinality(UInt64)) DEFAULT arrayFilter(token -> bitAnd(token, 3) = 1, attributes) CODEC(LZ4),
    ADD COLUMN IF NOT EXISTS labels_2 Array(LowCardinality(UInt64)) DEFAULT arrayFilter(token -> bitAnd(token, 3) = 2, attributes) CODEC(LZ4),
    ADD COLUMN IF NOT EXISTS labels_3 Array(LowCardinality(UInt64)) DEFAULT arrayFilter(token -> bitAnd(token, 3) = 3, attributes) CODEC(LZ4)
SETTINGS allow_suspicious_low_cardinality_types = 1
