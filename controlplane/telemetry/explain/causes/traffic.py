"""Causes in the requests themselves, where they come from, and the stages before the model."""

from math import sqrt

from controlplane.core.formatting import TEXT
from controlplane.telemetry.explain.causes.cause import Cause, Evidence
from controlplane.telemetry.explain.observation import Observation

COLLAPSE = 0.5  # of the share of hits before
CACHE_LOOKUPS = 100  # in each window: fewer prove nothing about a share
SIGNIFICANT = 3.0  # standard errors
FAR_SHARE = 0.05  # of requests
FAR_FACTOR = 2.0  # this many times the network time of requests served in their own region
NOTABLE_MS = 10.0
SATURATED = 2.0  # times the time per token before
NOTABLE_SHARE = 0.05  # of E2E
BLOCKED = 2.0  # times the wait of short prompts with no long one before them
BLOCKED_REQUESTS = 20


def cache_collapse(seen: Observation) -> Cause | None:
    """The share of hits fell to less than half of what it was, by more than chance."""
    cache = seen.cache
    if cache is None or min(cache.lookups, cache.lookups_before) < CACHE_LOOKUPS:
        return None
    now, before = cache.hits / cache.lookups, cache.hits_before / cache.lookups_before
    pooled = (cache.hits + cache.hits_before) / (cache.lookups + cache.lookups_before)
    error = sqrt(pooled * (1 - pooled) * (1 / cache.lookups + 1 / cache.lookups_before))
    if now >= COLLAPSE * before or before - now < SIGNIFICANT * error:
        return None
    skipped = (Evidence("lookups given up", cache.skipped, "requests", 0),) if cache.skipped else ()
    return Cause(
        "cache-collapse",
        f"the cache of {seen.pool} answers {now:.0%} of lookups, {before:.0%} before",
        (before - now) * seen.e2e_ms,
        (Evidence("hits", 100 * now, "%", 100 * before), Evidence("lookups", cache.lookups, "requests"), *skipped),
    )


def cross_region_traffic(seen: Observation) -> Cause | None:
    """A notable share of requests is served in another region, at the cost of network time."""
    far = seen.regions
    if far is None or not seen.requests or far.requests < FAR_SHARE * seen.requests:
        return None
    extra_ms = far.network_ms - far.local_network_ms
    if far.network_ms < FAR_FACTOR * far.local_network_ms or extra_ms < NOTABLE_MS:
        return None
    return Cause(
        "cross-region-traffic",
        f"{TEXT.share(far.requests / seen.requests)} of the requests of {seen.pool} are served in another region, {TEXT.ms(extra_ms)} away",
        extra_ms * far.requests / seen.requests,
        (
            Evidence("served in another region", 100 * far.requests / seen.requests, "%", 0),
            Evidence("their network time", far.network_ms, "ms", far.local_network_ms),
        ),
    )


def tokenizer_saturation(seen: Observation) -> Cause | None:
    """Tokenising takes much longer per token than before."""
    tokenizer, spent_ms = seen.tokenizer, seen.stage_ms.get("tokenizer")
    if tokenizer is None or spent_ms is None or spent_ms < NOTABLE_SHARE * seen.e2e_ms:
        return None
    if not 0 < tokenizer.us_per_token_before * SATURATED <= tokenizer.us_per_token:
        return None
    return Cause(
        "tokenizer-saturation",
        f"requests of {seen.pool} spend {TEXT.ms(spent_ms)} in the tokenizer",
        spent_ms * (1 - tokenizer.us_per_token_before / tokenizer.us_per_token),
        (
            Evidence("time per token", tokenizer.us_per_token, "µs/token", tokenizer.us_per_token_before),
            Evidence("tokenizer stage", spent_ms, "ms"),
        ),
    )


def long_prompts_block_short(seen: Observation) -> Cause | None:
    """Short prompts wait much longer while a long one is in prefill before them."""
    mix = seen.prompts
    if mix is None or mix.short_requests < BLOCKED_REQUESTS:
        return None
    extra_ms = mix.short_queue_with_long_ms - mix.short_queue_alone_ms
    if mix.short_queue_with_long_ms < BLOCKED * mix.short_queue_alone_ms or extra_ms < NOTABLE_MS:
        return None
    return Cause(
        "long-prompts-block-short",
        f"short prompts of {seen.pool} wait {TEXT.ms(extra_ms)} longer behind long ones",
        extra_ms * mix.short_requests / max(seen.requests, mix.short_requests),
        (
            Evidence(
                "wait of short prompts behind a long one", mix.short_queue_with_long_ms, "ms", mix.short_queue_alone_ms
            ),
            Evidence("short prompts that met one", mix.short_requests, "requests"),
            Evidence("long prompts", 100 * mix.long_share, "%"),
        ),
    )
