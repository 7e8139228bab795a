-- What a span's status said, the attributes of its resource, and its links. Resources repeat from span to span, so they are dictionary-coded.
-- `resource` is a JSON object; `links` a JSON list of [trace id, span id, attributes], ids in hex; both empty where there are none.
ALTER TABLE {database}.spans {on_cluster}
    ADD COLUMN IF NOT EXISTS status_message String CODEC(ZSTD(3)),
    ADD COLUMN IF NOT EXISTS resource LowCardinality(String) CODEC(ZSTD(3)),
    ADD COLUMN IF NOT EXISTS links String CODEC(ZSTD(3))
