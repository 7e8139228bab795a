-- The attempts of a request: a list for each field of an attempt, in order. Rows written before this schema have none.
-- `unmeasured`: spans of a server are missing, so its queue and network time are not known. It is false for rows written before this schema.
ALTER TABLE {database}.requests {on_cluster}
    ADD COLUMN IF NOT EXISTS attempt_pool Array(LowCardinality(String)) CODEC(ZSTD(3)),
    ADD COLUMN IF NOT EXISTS attempt_replica Array(LowCardinality(String)) CODEC(ZSTD(3)),
    ADD COLUMN IF NOT EXISTS attempt_outcome Array(LowCardinality(String)) CODEC(ZSTD(3)),
    ADD COLUMN IF NOT EXISTS attempt_error_type Array(LowCardinality(String)) CODEC(ZSTD(3)),
    ADD COLUMN IF NOT EXISTS attempt_retried Array(Bool) CODEC(ZSTD(3)),
    ADD COLUMN IF NOT EXISTS attempt_ns Array(UInt64) CODEC(T64, LZ4),
    ADD COLUMN IF NOT EXISTS attempt_model_ns Array(UInt64) CODEC(T64, LZ4),
    ADD COLUMN IF NOT EXISTS unmeasured Bool CODEC(ZSTD(3))
;
-- Builds count unmeasured requests from now on, so all half hours are sorted again, the newest first.
TRUNCATE TABLE IF EXISTS {database}.ranked {on_cluster}
;
TRUNCATE TABLE IF EXISTS {database}.ranks {on_cluster}
