-- Every part has a granule that may have a trace, by its first and last. Asking this filter takes less than opening the columns of a part:
-- 0.2 B a span. Older parts get it when they merge.
ALTER TABLE {database}.spans {on_cluster}
    ADD INDEX IF NOT EXISTS by_trace trace_id TYPE bloom_filter(0.05) GRANULARITY 1
