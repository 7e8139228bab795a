-- What policies did to a request: the routing rule that it followed, and the step of a ladder that changed or refused it. Both are empty
-- where there was none, and for rows written before this schema.
ALTER TABLE {database}.requests {on_cluster}
    ADD COLUMN IF NOT EXISTS policy_rule LowCardinality(String) CODEC(ZSTD(3)),
    ADD COLUMN IF NOT EXISTS degraded LowCardinality(String) CODEC(ZSTD(3))
