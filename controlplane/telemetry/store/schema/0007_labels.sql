-- Tokens of labels, the values that many requests share, apart from the others: as indexes into a dictionary, and in four columns by the
-- token's two lowest bits, of which a question reads one, packed to be read fast (ZSTD: an eighth smaller a row, a quarter slower to ask).
-- `attributes` keeps the others. Rows written before have all of theirs there,
-- from which the default takes them.
ALTER TABLE {database}.requests {on_cluster}
    ADD COLUMN IF NOT EXISTS labels_0 Array(LowCardinality(UInt64)) DEFAULT arrayFilter(token -> bitAnd(token, 3) = 0, attributes) CODEC(LZ4),
    ADD COLUMN IF NOT EXISTS labels_1 Array(LowCardinality(UInt64)) DEFAULT arrayFilter(token -> bitAnd(token, 3) = 1, attributes) CODEC(LZ4),
    ADD COLUMN IF NOT EXISTS labels_2 Array(LowCardinality(UInt64)) DEFAULT arrayFilter(token -> bitAnd(token, 3) = 2, attributes) CODEC(LZ4),
    ADD COLUMN IF NOT EXISTS labels_3 Array(LowCardinality(UInt64)) DEFAULT arrayFilter(token -> bitAnd(token, 3) = 3, attributes) CODEC(LZ4)
SETTINGS allow_suspicious_low_cardinality_types = 1
