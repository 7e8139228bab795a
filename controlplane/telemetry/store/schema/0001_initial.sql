-- One row per span, identity (trace_id, span_id). A span that is sent again replaces the earlier one; of different copies the longer counts.
-- Ordered by trace, so that a trace is one range, and then by time, so that similar traces lie alike and compress well.
-- Granules are small: reading one trace decompresses a thousand spans, not eight thousand. By day, so that retention drops whole parts.
-- Attribute values are text. A value that is not a string, or begins with \x01, is stored as \x01 and its JSON.
-- Resources repeat from span to span, so they are dictionary-coded. `resource` is a JSON object; `links` a JSON list of [trace id, span id,
-- attributes], ids in hex; both empty where there are none.
-- Every part has a granule that may have a trace, by its first and last. Asking the filter takes less than opening the columns of a part:
-- 0.2 B a span.
CREATE TABLE IF NOT EXISTS {database}.spans {on_cluster}
(
    trace_id      FixedString(16) CODEC(ZSTD(3)),
    span_id       FixedString(8) CODEC(NONE),
    parent_id     FixedString(8) CODEC(ZSTD(3)),
    start_ns      UInt64 CODEC(Delta, ZSTD(3)),
    duration_ns   UInt64 CODEC(T64, ZSTD(3)),
    kind          UInt8 CODEC(ZSTD(3)),
    status_code   UInt8 CODEC(ZSTD(3)),
    name          LowCardinality(String) CODEC(ZSTD(3)),
    service       LowCardinality(String) CODEC(ZSTD(3)),
    scope         LowCardinality(String) CODEC(ZSTD(3)),
    attributes    Map(LowCardinality(String), String) CODEC(ZSTD(3)),
    event_after   Array(Int64) CODEC(ZSTD(3)),
    event_name    Array(LowCardinality(String)) CODEC(ZSTD(3)),
    event_attributes Array(Map(LowCardinality(String), String)) CODEC(ZSTD(3)),
    status_message String CODEC(ZSTD(3)),
    resource      LowCardinality(String) CODEC(ZSTD(3)),
    links         String CODEC(ZSTD(3)),
    INDEX by_trace trace_id TYPE bloom_filter(0.05) GRANULARITY 1
)
ENGINE = {replacing}(duration_ns)
PARTITION BY intDiv(start_ns, 86400000000000)
PRIMARY KEY trace_id
ORDER BY (trace_id, start_ns, span_id)
TTL toDateTime(intDiv(start_ns, 1000000000)) + INTERVAL {retention_days} DAY
SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024
;
-- The latency ledger: one row per request, identity (trace_id, request_id). The highest version counts. A withdrawn version (later spans
-- showed the request to be part of another one) hides the earlier ones, and FINAL leaves it out.
-- Ordered by the entry span's start, which no amendment changes (start_ns may change): a row's key is stable, a window is a range of the
-- key, and parts written one after the other hardly overlap, so that FINAL merges little.
-- Times and stages, which every chart reads, are packed by T64 alone: within a tenth of ZSTD's size, and four times faster to read.
-- Granules and blocks are small, because a page of the slowest requests reads single rows.
-- `attributes` and `labels_*` are 64-bit hashes of the attributes of a request's spans (ledger/attribute_index.py), by which a row is found. The
-- index skips granules without the hash. Hashes of labels (values that many requests share) are stored apart, dictionary-encoded, in four
-- columns by the hash's two lowest bits: a query reads one of them. LZ4 instead of ZSTD: an eighth larger a row, a quarter faster to read.
-- `attempt_*` is a list for each field of an attempt, in order. `unmeasured`: spans of a server are missing, so its queue and network time are
-- not known. `policy_rule` is the routing rule that the request followed, `degraded` the step of a ladder that changed or refused it; both
-- are empty where there was none. `region` is the pool's; `caller_region` is where the gateway knows the request to come from. `repeated`: its
-- client said that it had sent it before. `can_wait`: a line of the lane that nobody waits for. `idempotency_key` is a hash of tenant and idempotency key, 0 without one.
-- `prompt_hash` to `answer_bytes` are of tenants that ask for an audit of their texts. `guard` is which rules of the tenant did what.
CREATE TABLE IF NOT EXISTS {database}.requests {on_cluster}
(
    trace_id         FixedString(16) CODEC(NONE),
    request_id       FixedString(8) CODEC(NONE),
    version          UInt64 CODEC(Delta, ZSTD(3)),
    withdrawn        UInt8 CODEC(ZSTD(3)),
    entry_start_ns   UInt64 CODEC(T64),
    start_ns         UInt64 CODEC(T64),
    e2e_ns           UInt64 CODEC(T64),
    end_ns           UInt64 ALIAS start_ns + e2e_ns,
    stage_retrieval  UInt64 CODEC(T64, ZSTD(3)),
    stage_rerank     UInt64 CODEC(T64, ZSTD(3)),
    stage_network    UInt64 CODEC(T64),
    stage_gateway    UInt64 CODEC(T64),
    stage_tokenizer  UInt64 CODEC(T64),
    stage_cache      UInt64 CODEC(T64),
    stage_queue      UInt64 CODEC(T64),
    stage_model      UInt64 CODEC(T64),
    stage_egress     UInt64 CODEC(T64),
    unattributed_ns  UInt64 CODEC(T64),
    prefill_ns       UInt64 CODEC(T64, ZSTD(3)),
    decode_ns        UInt64 CODEC(T64, ZSTD(3)),
    ttft_ns          Nullable(UInt64) CODEC(T64),
    ttft_definition  LowCardinality(String) CODEC(ZSTD(3)),
    status           LowCardinality(String) CODEC(ZSTD(3)),
    http_status      Nullable(UInt16) CODEC(ZSTD(3)),
    error_type       LowCardinality(String) CODEC(ZSTD(3)),
    error_stage      LowCardinality(String) CODEC(ZSTD(3)),
    operation        LowCardinality(String) CODEC(ZSTD(3)),
    service          LowCardinality(String) CODEC(ZSTD(3)),
    model            LowCardinality(String) CODEC(ZSTD(3)),
    variant          LowCardinality(String) CODEC(ZSTD(3)),
    pool             LowCardinality(String) CODEC(ZSTD(3)),
    replica          LowCardinality(String) CODEC(ZSTD(3)),
    region           LowCardinality(String) CODEC(ZSTD(3)),
    tier             LowCardinality(String) CODEC(ZSTD(3)),
    tenant           LowCardinality(String) CODEC(ZSTD(3)),
    prompt_bucket    LowCardinality(String) CODEC(ZSTD(3)),
    prompt_tokens    Nullable(UInt32) CODEC(T64, ZSTD(3)),
    cached_tokens    Nullable(UInt32) CODEC(T64, ZSTD(3)),
    output_tokens    Nullable(UInt32) CODEC(T64, ZSTD(3)),
    cache_outcome    LowCardinality(String) CODEC(ZSTD(3)),
    stream           Bool CODEC(ZSTD(3)),
    cold_start       Bool CODEC(ZSTD(3)),
    cost_usd         Nullable(Float64) CODEC(ZSTD(3)),
    policy_version   Nullable(UInt64) CODEC(ZSTD(3)),
    span_count       UInt32 CODEC(T64, ZSTD(3)),
    adapter          LowCardinality(String) CODEC(ZSTD(3)),
    critical_path    Array(FixedString(8)) CODEC(ZSTD(3)),
    attributes       Array(UInt64) CODEC(ZSTD(3)),
    labels_0         Array(LowCardinality(UInt64)) CODEC(LZ4),
    labels_1         Array(LowCardinality(UInt64)) CODEC(LZ4),
    labels_2         Array(LowCardinality(UInt64)) CODEC(LZ4),
    labels_3         Array(LowCardinality(UInt64)) CODEC(LZ4),
    attempt_pool     Array(LowCardinality(String)) CODEC(ZSTD(3)),
    attempt_replica  Array(LowCardinality(String)) CODEC(ZSTD(3)),
    attempt_outcome  Array(LowCardinality(String)) CODEC(ZSTD(3)),
    attempt_error_type Array(LowCardinality(String)) CODEC(ZSTD(3)),
    attempt_retried  Array(Bool) CODEC(ZSTD(3)),
    attempt_ns       Array(UInt64) CODEC(T64, LZ4),
    attempt_model_ns Array(UInt64) CODEC(T64, LZ4),
    unmeasured       Bool CODEC(ZSTD(3)),
    policy_rule      LowCardinality(String) CODEC(ZSTD(3)),
    degraded         LowCardinality(String) CODEC(ZSTD(3)),
    caller_region    LowCardinality(String) CODEC(ZSTD(3)),
    repeated         Bool CODEC(ZSTD(3)),
    can_wait         Bool CODEC(ZSTD(3)),
    idempotency_key  UInt32 CODEC(ZSTD(3)),
    prompt_hash      String CODEC(ZSTD(3)),
    prompt_bytes     Nullable(UInt32) CODEC(T64, ZSTD(3)),
    answer_hash      String CODEC(ZSTD(3)),
    answer_bytes     Nullable(UInt32) CODEC(T64, ZSTD(3)),
    guard            LowCardinality(String) CODEC(ZSTD(3)),
    INDEX by_trace trace_id TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX by_attribute attributes TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = {replacing}(version, withdrawn)
PARTITION BY intDiv(entry_start_ns, 86400000000000)
ORDER BY (entry_start_ns, trace_id, request_id)
TTL toDateTime(intDiv(entry_start_ns, 1000000000)) + INTERVAL {retention_days} DAY
SETTINGS ttl_only_drop_parts = 1, index_granularity = 2048, min_compress_block_size = 16384, allow_suspicious_low_cardinality_types = 1
;
-- One trace in {sampled}, by a hash of its id, with all its requests: for questions that need many columns of many requests (read/sample.py).
-- It has what filters of dimensions, explanations and causes read: each column costs a third of a millisecond of every insert.
CREATE TABLE IF NOT EXISTS {database}.request_samples {on_cluster}
(
    trace_id         FixedString(16),
    request_id       FixedString(8),
    version          UInt64,
    withdrawn        UInt8,
    entry_start_ns   UInt64,
    e2e_ns           UInt64,
    stage_retrieval  UInt64,
    stage_rerank     UInt64,
    stage_network    UInt64,
    stage_gateway    UInt64,
    stage_tokenizer  UInt64,
    stage_cache      UInt64,
    stage_queue      UInt64,
    stage_model      UInt64,
    stage_egress     UInt64,
    unattributed_ns  UInt64,
    status           LowCardinality(String),
    http_status      Nullable(UInt16),
    error_stage      LowCardinality(String),
    operation        LowCardinality(String),
    service          LowCardinality(String),
    model            LowCardinality(String),
    variant          LowCardinality(String),
    pool             LowCardinality(String),
    replica          LowCardinality(String),
    region           LowCardinality(String),
    tier             LowCardinality(String),
    tenant           LowCardinality(String),
    prompt_bucket    LowCardinality(String),
    prompt_tokens    Nullable(UInt32),
    output_tokens    Nullable(UInt32),
    cache_outcome    LowCardinality(String),
    cold_start       Bool,
    policy_rule      LowCardinality(String),
    degraded         LowCardinality(String),
    attempt_pool     Array(LowCardinality(String)),
    attempt_replica  Array(LowCardinality(String)),
    attempt_outcome  Array(LowCardinality(String)),
    attempt_model_ns Array(UInt64)
)
ENGINE = {replacing}(version, withdrawn)
PARTITION BY intDiv(entry_start_ns, 86400000000000)
ORDER BY (entry_start_ns, trace_id, request_id)
TTL toDateTime(intDiv(entry_start_ns, 1000000000)) + INTERVAL {retention_days} DAY
SETTINGS ttl_only_drop_parts = 1, index_granularity = 2048
;
CREATE MATERIALIZED VIEW IF NOT EXISTS {database}.request_sampling {on_cluster} TO {database}.request_samples
AS SELECT trace_id, request_id, version, withdrawn, entry_start_ns, e2e_ns, stage_retrieval, stage_rerank, stage_network, stage_gateway, stage_tokenizer, stage_cache, stage_queue, stage_model,
    stage_egress, unattributed_ns, status, http_status, error_stage, operation, service, model, variant, pool, replica, region, tier, tenant, prompt_bucket,
    prompt_tokens, output_tokens, cache_outcome, cold_start, policy_rule, degraded, attempt_pool, attempt_replica, attempt_outcome, attempt_model_ns
FROM {database}.requests WHERE cityHash64(trace_id) % {sampled} = 0
;
-- What clients and evaluators say of answers, by the trace of the request. Of several of one name the latest counts.
CREATE TABLE IF NOT EXISTS {database}.scores {on_cluster}
(
    trace_id FixedString(16) CODEC(NONE),
    name     LowCardinality(String) CODEC(ZSTD(1)),
    at_ns    UInt64 CODEC(T64),
    value    Float64 CODEC(ZSTD(1))
)
ENGINE = {replacing}(at_ns)
PARTITION BY intDiv(at_ns, 86400000000000)
ORDER BY (name, trace_id)
TTL toDateTime(intDiv(at_ns, 1000000000)) + INTERVAL {retention_days} DAY
SETTINGS ttl_only_drop_parts = 1
;
-- Metric samples, identity (series, time_ns). A sample that is sent again replaces the earlier one. Ordered by series, so that each series
-- is one range of steady times (DoubleDelta) and close values (Gorilla). start_ns is the start of a counter, if its sender gives one, else 0.
CREATE TABLE IF NOT EXISTS {database}.samples {on_cluster}
(
    series   UInt64 CODEC(Delta, ZSTD(1)),
    time_ns  Int64 CODEC(DoubleDelta, ZSTD(1)),
    start_ns Int64 CODEC(Delta, ZSTD(1)),
    value    Float64 CODEC(Gorilla, ZSTD(1))
)
ENGINE = {replacing}()
PARTITION BY intDiv(time_ns, 86400000000000)
ORDER BY (series, time_ns)
TTL toDateTime(intDiv(time_ns, 1000000000)) + INTERVAL {retention_days} DAY
SETTINGS ttl_only_drop_parts = 1
;
-- The name and labels of each series. Written every hour while it has samples; kept a day longer than its last sample.
CREATE TABLE IF NOT EXISTS {database}.series {on_cluster}
(
    metric  LowCardinality(String) CODEC(ZSTD(3)),
    series  UInt64 CODEC(ZSTD(3)),
    kind    LowCardinality(String) CODEC(ZSTD(3)),
    unit    LowCardinality(String) CODEC(ZSTD(3)),
    delta   Bool CODEC(ZSTD(3)),
    labels  Map(LowCardinality(String), String) CODEC(ZSTD(3)),
    seen_ns Int64 CODEC(Delta, ZSTD(3))
)
ENGINE = {replacing}(seen_ns)
ORDER BY (metric, series)
TTL toDateTime(intDiv(seen_ns, 1000000000) + 86400) + INTERVAL {retention_days} DAY
;
-- Every scrape of a target. The newest is the target's state; an event is a change of `up`.
CREATE TABLE IF NOT EXISTS {database}.scrapes {on_cluster}
(
    time_ns     Int64 CODEC(DoubleDelta, ZSTD(1)),
    job         LowCardinality(String) CODEC(ZSTD(3)),
    instance    LowCardinality(String) CODEC(ZSTD(3)),
    url         LowCardinality(String) CODEC(ZSTD(3)),
    up          Bool CODEC(ZSTD(3)),
    duration_ns UInt64 CODEC(T64, ZSTD(1)),
    samples     UInt32 CODEC(T64, ZSTD(1)),
    error       String CODEC(ZSTD(3))
)
ENGINE = {replacing}()
PARTITION BY intDiv(time_ns, 86400000000000)
ORDER BY (job, instance, time_ns)
TTL toDateTime(intDiv(time_ns, 1000000000)) + INTERVAL {retention_days} DAY
SETTINGS ttl_only_drop_parts = 1
;
-- The counts of objectives by hour. They are kept longer than the ledger, so that a quarter has an error budget and a restart needs no recount.
-- `definition` is a digest of what is counted. One row has all values that the count is split by, so a row means that the hour is counted.
CREATE TABLE IF NOT EXISTS {database}.tallies {on_cluster}
(
    definition LowCardinality(String) CODEC(ZSTD(3)),
    hour       UInt32 CODEC(Delta, ZSTD(3)),
    version    UInt64 CODEC(Delta, ZSTD(3)),
    splits     Array(String) CODEC(ZSTD(3)),
    bad        Array(UInt32) CODEC(ZSTD(3)),
    total      Array(UInt32) CODEC(ZSTD(3))
)
ENGINE = {replacing}(version)
ORDER BY (definition, hour)
TTL toDateTime(hour * 3600) + INTERVAL 13 MONTH
;
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
;
-- Where the spans of a lost trace belong (ingest/otlp/rejoin.py): the trace, and the calling span in it.
CREATE TABLE IF NOT EXISTS {database}.lost_traces {on_cluster}
(
    lost_trace_id FixedString(16) CODEC(NONE),
    trace_id      FixedString(16) CODEC(NONE),
    parent_id     FixedString(8) CODEC(NONE),
    noted_at      DateTime DEFAULT now() CODEC(Delta, ZSTD(1))
)
ENGINE = {replacing}(noted_at)
ORDER BY lost_trace_id
TTL noted_at + INTERVAL {retention_days} DAY
;
-- Loads of models into servers, as their own spans say: cold starts without the time before the server began. A load that is sent again
-- replaces the earlier one.
CREATE TABLE IF NOT EXISTS {database}.model_loads {on_cluster}
(
    trace_id    FixedString(16) CODEC(NONE),
    span_id     FixedString(8) CODEC(NONE),
    start_ns    UInt64 CODEC(Delta, ZSTD(1)),
    duration_ns UInt64 CODEC(T64, ZSTD(1)),
    adapter     LowCardinality(String),
    service     LowCardinality(String),
    model       LowCardinality(String),
    pool        LowCardinality(String),
    replica     String
)
ENGINE = {replacing}(duration_ns)
ORDER BY (start_ns, trace_id, span_id)
TTL toDateTime(intDiv(start_ns, 1000000000)) + INTERVAL {rollup_retention_days} DAY
;
-- Rows written by five minutes of their entry time (`stretch`: five minutes since the epoch), whoever writes them. A build of a stretch counts
-- as current while this is what it was when the build was made.
CREATE TABLE IF NOT EXISTS {database}.rollup_touched {on_cluster}
(
    stretch UInt32,
    touches UInt64
)
ENGINE = {summing}(touches)
ORDER BY stretch
TTL toDateTime(stretch * 300) + INTERVAL {rollup_retention_days} DAY
;
CREATE MATERIALIZED VIEW IF NOT EXISTS {database}.rollup_touches {on_cluster} TO {database}.rollup_touched
AS SELECT toUInt32(intDiv(entry_start_ns, 300000000000)) AS stretch, count() AS touches FROM {database}.requests GROUP BY stretch
;
-- The finished builds: the highest `version` of a stretch counts. `rollups` and `demand` have rows of other builds too, which replaced or
-- unfinished ones left; a reader takes `build IN (SELECT build FROM rollup_builds FINAL …)`. `touches` is the sum of rollup_touched over
-- [start_s, start_s + its length) when the build was made.
CREATE TABLE IF NOT EXISTS {database}.rollup_builds {on_cluster}
(
    kind      LowCardinality(String),
    step_s    UInt32,
    start_s   UInt32,
    version   UInt64,
    build     UInt64,
    touches   UInt64
)
ENGINE = {replacing}(version)
ORDER BY (kind, step_s, start_s)
TTL toDateTime(start_s) + INTERVAL {rollup_retention_days} DAY
SETTINGS index_granularity = 1024
;
-- Requests by step of entry time and dimensions (store/tiers.py says which steps are kept for how long). The time counts from the build where
-- that is later, so that rows of old requests stay until coarser ones are made of them.
-- Histograms are of answered requests (status `ok`), as two arrays: bins in order, and how many values each holds. A bin is
-- (value >> e) + 128 e with e = max(bit length - 8, 0), so at most 0.8 % wide. `part_bins` has all parts of the time in one: part * 8192
-- + bin, parts in the order of `PARTS`. `band_bins` are E2E bins >> 3, with the sums of each part of their requests in `band_*`,
-- µs within 0.2 %.
CREATE TABLE IF NOT EXISTS {database}.rollups {on_cluster}
(
    build            UInt64 CODEC(ZSTD(1)),
    step_s           UInt32 CODEC(ZSTD(1)),
    start_s          UInt32 CODEC(Delta, ZSTD(1)),
    model            LowCardinality(String) CODEC(ZSTD(1)),
    variant          LowCardinality(String) CODEC(ZSTD(1)),
    pool             LowCardinality(String) CODEC(ZSTD(1)),
    tier             LowCardinality(String) CODEC(ZSTD(1)),
    region           LowCardinality(String) CODEC(ZSTD(1)),
    cache_outcome    LowCardinality(String) CODEC(ZSTD(1)),
    status           LowCardinality(String) CODEC(ZSTD(1)),
    ttft_definition  LowCardinality(String) CODEC(ZSTD(1)),
    requests         UInt64 CODEC(T64, ZSTD(1)),
    unmeasured       UInt64 CODEC(T64, ZSTD(1)),
    input_tokens     UInt64 CODEC(T64, ZSTD(1)),
    output_tokens    UInt64 CODEC(T64, ZSTD(1)),
    cost_usd         Float64 CODEC(ZSTD(1)),
    newest_ns        UInt64 CODEC(Delta, ZSTD(1)),
    e2e_bins         Array(UInt16) CODEC(Delta, ZSTD(1)),
    e2e_counts       Array(UInt32) CODEC(T64, ZSTD(1)),
    ttft_bins        Array(UInt16) CODEC(Delta, ZSTD(1)),
    ttft_counts      Array(UInt32) CODEC(T64, ZSTD(1)),
    part_bins        Array(UInt32) CODEC(Delta, ZSTD(1)),
    part_counts      Array(UInt32) CODEC(T64, ZSTD(1)),
    band_bins        Array(UInt16) CODEC(Delta, ZSTD(1)),
    band_retrieval   Array(UInt64) CODEC(T64, ZSTD(1)),
    band_rerank      Array(UInt64) CODEC(T64, ZSTD(1)),
    band_network     Array(UInt64) CODEC(T64, ZSTD(1)),
    band_gateway     Array(UInt64) CODEC(T64, ZSTD(1)),
    band_tokenizer   Array(UInt64) CODEC(T64, ZSTD(1)),
    band_cache       Array(UInt64) CODEC(T64, ZSTD(1)),
    band_queue       Array(UInt64) CODEC(T64, ZSTD(1)),
    band_model       Array(UInt64) CODEC(T64, ZSTD(1)),
    band_egress      Array(UInt64) CODEC(T64, ZSTD(1)),
    band_unattributed Array(UInt64) CODEC(T64, ZSTD(1))
)
ENGINE = {plain}
PARTITION BY (step_s, intDiv(start_s, multiIf(step_s < 3600, 21600, step_s = 3600, 172800, 2592000)))
ORDER BY (step_s, start_s, model, variant, pool, tier, region, cache_outcome, status, ttft_definition)
TTL toDateTime(greatest(start_s, toUInt32(intDiv(build, 1000000000)))) + toIntervalHour(multiIf(step_s < 3600, {kept_h_300}, step_s = 3600, {kept_h_3600}, 24 * {rollup_retention_days}))
SETTINGS ttl_only_drop_parts = 1, index_granularity = 128
;
-- Rollups by one `dimension`, with its `value`, or by none (`dimension` is empty), so that long pages without filters, or with those of one
-- dimension, read few rows. They are made of `rollups` and have its builds.
CREATE TABLE IF NOT EXISTS {database}.rollup_slices {on_cluster}
(
    build            UInt64 CODEC(ZSTD(1)),
    step_s           UInt32 CODEC(ZSTD(1)),
    start_s          UInt32 CODEC(Delta, ZSTD(1)),
    dimension        LowCardinality(String) CODEC(ZSTD(1)),
    value            LowCardinality(String) CODEC(ZSTD(1)),
    status           LowCardinality(String) CODEC(ZSTD(1)),
    ttft_definition  LowCardinality(String) CODEC(ZSTD(1)),
    requests         UInt64 CODEC(T64, ZSTD(1)),
    unmeasured       UInt64 CODEC(T64, ZSTD(1)),
    newest_ns        UInt64 CODEC(Delta, ZSTD(1)),
    e2e_bins         Array(UInt16) CODEC(Delta, ZSTD(1)),
    e2e_counts       Array(UInt32) CODEC(T64, ZSTD(1)),
    ttft_bins        Array(UInt16) CODEC(Delta, ZSTD(1)),
    ttft_counts      Array(UInt32) CODEC(T64, ZSTD(1)),
    part_bins        Array(UInt32) CODEC(Delta, ZSTD(1)),
    part_counts      Array(UInt32) CODEC(T64, ZSTD(1)),
    band_bins        Array(UInt16) CODEC(Delta, ZSTD(1)),
    band_retrieval   Array(UInt64) CODEC(T64, ZSTD(1)),
    band_rerank      Array(UInt64) CODEC(T64, ZSTD(1)),
    band_network     Array(UInt64) CODEC(T64, ZSTD(1)),
    band_gateway     Array(UInt64) CODEC(T64, ZSTD(1)),
    band_tokenizer   Array(UInt64) CODEC(T64, ZSTD(1)),
    band_cache       Array(UInt64) CODEC(T64, ZSTD(1)),
    band_queue       Array(UInt64) CODEC(T64, ZSTD(1)),
    band_model       Array(UInt64) CODEC(T64, ZSTD(1)),
    band_egress      Array(UInt64) CODEC(T64, ZSTD(1)),
    band_unattributed Array(UInt64) CODEC(T64, ZSTD(1))
)
ENGINE = {plain}
PARTITION BY (step_s, intDiv(start_s, if(step_s < 3600, 21600, 2592000)))
ORDER BY (step_s, dimension, value, start_s, status, ttft_definition)
TTL toDateTime(greatest(start_s, toUInt32(intDiv(build, 1000000000)))) + toIntervalHour(if(step_s < 3600, {kept_h_300}, 24 * {rollup_retention_days}))
SETTINGS ttl_only_drop_parts = 1, index_granularity = 128
;
-- What was asked for by five minutes, for forecasts. `requests` are all, of which `shed` were rejected and `from_cache` answered by the cache
-- or with another request. `*_known` is how many requests have that number. `region` is where they came from.
CREATE TABLE IF NOT EXISTS {database}.demand {on_cluster}
(
    build                UInt64 CODEC(Delta, ZSTD(1)),
    model                LowCardinality(String) CODEC(ZSTD(1)),
    tier                 LowCardinality(String) CODEC(ZSTD(1)),
    region               LowCardinality(String) CODEC(ZSTD(1)),
    start_s              UInt32 CODEC(Delta, ZSTD(1)),
    requests             UInt32 CODEC(T64, ZSTD(1)),
    shed                 UInt32 CODEC(T64, ZSTD(1)),
    limited              UInt32 CODEC(T64, ZSTD(1)),
    from_cache           UInt32 CODEC(T64, ZSTD(1)),
    input_tokens         UInt64 CODEC(T64, ZSTD(1)),
    input_known          UInt32 CODEC(T64, ZSTD(1)),
    output_tokens        UInt64 CODEC(T64, ZSTD(1)),
    output_known         UInt32 CODEC(T64, ZSTD(1))
)
ENGINE = {plain}
PARTITION BY intDiv(start_s, 2592000)
ORDER BY (model, tier, region, start_s)
TTL toDateTime(start_s) + INTERVAL {rollup_retention_days} DAY
SETTINGS ttl_only_drop_parts = 1
;
-- For how long requests were recorded, s by five minutes; together more where several processes receive. Five minutes without a row are a gap.
CREATE TABLE IF NOT EXISTS {database}.recorded {on_cluster}
(
    start_s    UInt32,
    recorded_s Float32
)
ENGINE = {summing}(recorded_s)
ORDER BY start_s
TTL toDateTime(start_s) + INTERVAL {rollup_retention_days} DAY
;
-- How often each gateway was looked at in five minutes, and how often it was there: it answered, if only that it wants a token.
CREATE TABLE IF NOT EXISTS {database}.gateway_looks {on_cluster}
(
    start_s  UInt32,
    instance LowCardinality(String),
    looks    UInt64,
    served   UInt64
)
ENGINE = {summing}((looks, served))
ORDER BY (start_s, instance)
TTL toDateTime(start_s) + INTERVAL {rollup_retention_days} DAY
;
CREATE MATERIALIZED VIEW IF NOT EXISTS {database}.gateway_looked {on_cluster} TO {database}.gateway_looks
AS SELECT toUInt32(intDiv(time_ns, 300000000000) * 300) AS start_s, instance, count() AS looks,
    countIf(up OR error LIKE 'it answers 4%') AS served
FROM {database}.scrapes WHERE job = 'gateway' GROUP BY start_s, instance
;
-- Samples written by five minutes (`stretch`: five minutes since the epoch). A build of a stretch is up to date while this is its `touches`.
CREATE TABLE IF NOT EXISTS {database}.metric_touched {on_cluster}
(
    stretch UInt32,
    touches UInt64
)
ENGINE = {summing}(touches)
ORDER BY stretch
TTL toDateTime(stretch * 300) + INTERVAL {rollup_retention_days} DAY
;
CREATE MATERIALIZED VIEW IF NOT EXISTS {database}.metric_touches {on_cluster} TO {database}.metric_touched
AS SELECT toUInt32(intDiv(time_ns, 300000000000)) AS stretch, count() AS touches FROM {database}.samples GROUP BY stretch
;
-- Gauges of load (read/metrics/rollups.py names them) by five minutes: rows of `build`s, of which `rollup_builds` says which count, with kind
-- 'metrics'. The names and labels of a series are kept as long as its samples.
CREATE TABLE IF NOT EXISTS {database}.metric_rollups {on_cluster}
(
    build   UInt64 CODEC(Delta, ZSTD(1)),
    metric  LowCardinality(String) CODEC(ZSTD(1)),
    labels  Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    series  UInt64 CODEC(Delta, ZSTD(1)),
    start_s UInt32 CODEC(DoubleDelta, ZSTD(1)),
    samples UInt32 CODEC(T64, ZSTD(1)),
    mean    Float64 CODEC(Gorilla, ZSTD(1)),
    most    Float64 CODEC(Gorilla, ZSTD(1)),
    last    Float64 CODEC(Gorilla, ZSTD(1))
)
ENGINE = {plain}
PARTITION BY intDiv(start_s, 604800)
ORDER BY (metric, series, start_s)
TTL toDateTime(start_s) + INTERVAL {rollup_retention_days} DAY
SETTINGS ttl_only_drop_parts = 1
