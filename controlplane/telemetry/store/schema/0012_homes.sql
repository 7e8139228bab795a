-- Where the spans of a lost trace belong (ingest/otlp/rejoin.py): the trace, and the calling span in it.
CREATE TABLE IF NOT EXISTS {database}.homes {on_cluster}
(
    lost      FixedString(16) CODEC(NONE),
    trace_id  FixedString(16) CODEC(NONE),
    parent_id FixedString(8) CODEC(NONE),
    noted_at  DateTime DEFAULT now() CODEC(Delta, ZSTD(1))
)
ENGINE = {replacing}(noted_at)
ORDER BY lost
TTL noted_at + INTERVAL {retention_days} DAY
