-- Tokens of labels, the values that many requests share, apart from the others: as indexes into a dictionary, and in eight columns by the
-- token's three lowest bits, of which a question reads one. `attributes` keeps the others. Rows written before have all of theirs there,
-- from which the default takes them.
ALTER TABLE {database}.requests {on_cluster}
    ADD COLUMN IF NOT EXISTS labels_0 Array(LowCardinality(UInt64)) DEFAULT arrayFilter(token -> bitAnd(token, 7) = 0, attributes) CODEC(ZSTD(3)),
    ADD COLUMN IF NOT EXISTS labels_1 Array(LowCardinality(UInt64)) DEFAULT arrayFilter(token -> bitAnd(token, 7) = 1, attributes) CODEC(ZSTD(3)),
    ADD COLUMN IF NOT EXISTS labels_2 Array(LowCardinality(UInt64)) DEFAULT arrayFilter(token -> bitAnd(token, 7) = 2, attributes) CODEC(ZSTD(3)),
    ADD COLUMN IF NOT EXISTS labels_3 Array(LowCardinality(UInt64)) DEFAULT arrayFilter(token -> bitAnd(token, 7) = 3, attributes) CODEC(ZSTD(3)),
    ADD COLUMN IF NOT EXISTS labels_4 Array(LowCardinality(UInt64)) DEFAULT arrayFilter(token -> bitAnd(token, 7) = 4, attributes) CODEC(ZSTD(3)),
    ADD COLUMN IF NOT EXISTS labels_5 Array(LowCardinality(UInt64)) DEFAULT arrayFilter(token -> bitAnd(token, 7) = 5, attributes) CODEC(ZSTD(3)),
    ADD COLUMN IF NOT EXISTS labels_6 Array(LowCardinality(UInt64)) DEFAULT arrayFilter(token -> bitAnd(token, 7) = 6, attributes) CODEC(ZSTD(3)),
    ADD COLUMN IF NOT EXISTS labels_7 Array(LowCardinality(UInt64)) DEFAULT arrayFilter(token -> bitAnd(token, 7) = 7, attributes) CODEC(ZSTD(3))
SETTINGS allow_suspicious_low_cardinality_types = 1
