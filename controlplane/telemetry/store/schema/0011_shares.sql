-- Which pipeline closed which trace, so that each learns which traces others have spans of (ingest/pipeline/assembly.py). `trace` is 64 bits
-- of the trace id, `batch` the batch that closed it. `taken_at` is the server's clock, because the writers' clocks may differ.
CREATE TABLE IF NOT EXISTS {database}.shares {on_cluster}
(
    process  UInt64 CODEC(ZSTD(1)),
    batch    UInt64 CODEC(Delta, ZSTD(1)),
    taken_at DateTime DEFAULT now() CODEC(Delta, ZSTD(1)),
    trace    UInt64 CODEC(NONE),
    INDEX by_time taken_at TYPE minmax GRANULARITY 1
)
ENGINE = {plain}
PARTITION BY intDiv(toUnixTimestamp(taken_at), 3600)
ORDER BY (process, batch)
TTL taken_at + INTERVAL {shares_kept_h} HOUR
SETTINGS ttl_only_drop_parts = 1
