"""What another document would have changed for recorded requests, and what of it nobody can know."""

from typing import Any

import msgspec
import pytest

from controlplane.policy.preview.core.gateways import Gateways
from controlplane.policy.preview.core.proposal_effects import Judged, compared, not_replayed
from controlplane.telemetry.core.replayed_rows import RecordedRequest
from inference.contract.snapshot import (
    CacheRule,
    Endpoint,
    Model,
    Pool,
    Price,
    Route,
    Snapshot,
    StageTimeouts,
    Tenant,
    Tier,
    TimeoutRule,
)

FAST = Judged("fast", 0.95, {"model": "chat"}, cut=0, place=0, of_availability=False)
UP = Judged("up", 0.99, {}, cut=1, place=0, of_availability=True)
THERE = (Endpoint("r0", url="http://r0:1/v1"),)


def pool(name: str, variant: str = "fp16", usd: float | None = 1.0, **changes: Any) -> Pool:
    prices = () if usd is None else (Price(usd, usd),)
    return Pool(name, variant, name, "m", "", THERE, prices=prices, **changes)


BEFORE = Snapshot(
    version=1,
    models=(Model("chat", (Route("eu", 100), Route("us", 0))),),
    pools=(pool("eu"), pool("us", "int8", 0.5), pool("new", usd=None)),
    tiers=(Tier("premium", 1), Tier("batch", 3)),
    tenants=(Tenant("shop", "premium", ()), Tenant("other", "batch", ())),
)


def model(**changes: Any) -> Snapshot:
    return document(models=(msgspec.structs.replace(BEFORE.models[0], **changes),))


def document(**changes: Any) -> Snapshot:
    return msgspec.structs.replace(BEFORE, **changes)


def request(at_ms: int = 0, **changes: Any) -> RecordedRequest:
    """A good one of the shop, unless it says otherwise; `codes` are of FAST and UP."""
    values = {
        "at_ms": at_ms, "e2e_ms": 200, "tokenizer_ms": 1, "queue_ms": 10, "model_ms": 180, "model": "chat", "pool": "eu",
        "caller_region": "eu", "tier": "premium", "tenant": "shop", "prompt_tokens": 600, "output_tokens": 400, "cache": "miss",
        "status": "ok", "limited": False, "can_wait": False, "codes": (0, 0),
    }  # fmt: skip
    return RecordedRequest(**values | changes)


def previewed(after: Snapshot, rows: list[RecordedRequest]) -> dict[str, Any]:
    return compared(Gateways(BEFORE, 1), Gateways(after, 1), rows, [FAST, UP])


def pools_of(result: dict[str, Any]) -> dict[str, tuple[float, float]]:
    return {each["pool"]: (each["before"], each["after"]) for each in result["pools"]}


def refused(result: dict[str, Any]) -> dict[str, tuple[int, int]]:
    return {each["why"]: (each["before"], each["after"]) for each in result["refused"]}


def attained(result: dict[str, Any], slug: str) -> dict[str, Any]:
    [found] = [each for each in result["objectives"] if each["slug"] == slug]
    return dict(found)


def test_the_same_document_changes_nothing() -> None:
    rows = [request(at, cache=cache) for at, cache in enumerate(("miss", "hit", "coalesced", "bypass"))]
    result = previewed(BEFORE, rows)
    assert (result["moved"], result["refused"], result["objectives"], result["unchanged_objectives"]) == (0, [], [], 2)
    assert result["cache"] == {"answered": 2, "lost": 0, "unknown": 0}
    assert result["cost"] == {"before": 2.0, "after": 2.0, "requests": 2, "unknown": 0}


def test_another_weight_moves_requests_to_a_pool_that_is_as_good_and_as_dear_as_it_was_recorded() -> None:
    here = [request(at) for at in range(40)]
    there = [request(at, pool="us", codes=(2 if at % 4 else 0, 0)) for at in range(40)]
    result = previewed(model(routes=(Route("eu", 50), Route("us", 50))), here + there)
    assert result["moved"] == 40
    assert pools_of(result) == {"eu": (80.0, 40.0), "us": (0.0, 40.0)}
    assert result["cost"] == {"before": 80.0, "after": 60.0, "requests": 80, "unknown": 0}
    fast = attained(result, "fast")
    assert fast["before"] == 50 / 80 and fast["unknown"] == 0
    assert fast["after"] == pytest.approx([(25 + 40 * 0.25) / 80] * 2)


def test_what_a_pool_never_served_is_unknown_and_bounds_what_is_attained() -> None:
    result = previewed(model(routes=(Route("eu", 75), Route("new", 25))), [request(at) for at in range(40)])
    fast = attained(result, "fast")
    assert (fast["before"], fast["after"], fast["unknown"]) == (1.0, [0.75, 1.0], 10)
    assert result["cost"] == {"before": 0.0, "after": 0.0, "requests": 0, "unknown": 40}, "it has no price"
    everything = previewed(model(routes=(Route("new"),)), [request(at) for at in range(40)])
    assert attained(everything, "fast")["after"] is None


def test_a_pool_without_a_replica_gets_nothing_yet_and_a_fallback_stands_in() -> None:
    pools = (pool("eu"), msgspec.structs.replace(pool("us"), endpoints=()), pool("new"))
    after = msgspec.structs.replace(model(routes=(Route("us"),), fallbacks=("us", "new")), pools=pools)
    assert pools_of(previewed(after, [request()])) == {"eu": (1.0, 0.0), "new": (0.0, 1.0)}


@pytest.mark.parametrize(
    ("tier", "why", "most"),
    [
        (Tier("premium", 1, requests_per_minute=3), "requests_per_minute", 3),
        (Tier("premium", 1, tokens_per_minute=5_000), "tokens_per_minute", 5),
        (Tier("premium", 1, max_in_flight=2), "max_in_flight", 2),
    ],
)
def test_a_tighter_limit_refuses_by_tenant_and_minute(tier: Tier, why: str, most: int) -> None:
    after = document(tiers=(tier, Tier("batch", 3)))
    rows = [request(at, can_wait=at == 9) for at in range(10)] + [request(70_000)]
    assert refused(previewed(after, rows)) == {why: (0, 9 - most)}, "a line of the lane has limits of its own"
    fast = attained(previewed(after, rows), "fast")
    assert fast["after"] == [1.0, 1.0] and attained(previewed(after, rows), "up")["after"] == [1.0, 1.0]


def test_a_wider_limit_lets_pass_what_was_refused_and_says_no_more_of_it() -> None:
    before = document(tiers=(Tier("premium", 1, requests_per_minute=1), Tier("batch", 3)))
    rows = [request(0), request(1, limited=True, status="rejected", codes=(-1, -1), output_tokens=None)]
    result = compared(Gateways(before, 1), Gateways(BEFORE, 1), rows, [FAST, UP])
    assert (result["passes"], refused(result)) == (1, {"requests_per_minute": (1, 0)})
    assert pools_of(result) == {"eu": (1.0, 1.0)} and result["objectives"] == []


def test_a_tenant_of_another_tier_has_its_limits_and_a_token_keeps_the_tier_that_it_named() -> None:
    tiers = (Tier("premium", 1), Tier("batch", 3, requests_per_minute=1))
    after = document(tiers=tiers, tenants=(Tenant("shop", "batch", ()), Tenant("other", "premium", ())))
    rows = [request(at) for at in range(3)] + [request(at, tenant="other", tier="premium") for at in range(3)]
    assert refused(previewed(after, rows)) == {"requests_per_minute": (0, 2)}


def test_what_is_not_served_any_more_is_refused_with_the_reason() -> None:
    rows = [request(0), request(1, prompt_tokens=9_000), request(2, prompt_tokens=9_000, cache="hit")]
    assert refused(previewed(document(models=()), rows)) == {"its model is not served": (0, 3)}
    assert refused(previewed(model(max_prompt_tokens=8_000), rows)) == {"its prompt is too long": (0, 1)}
    elsewhere = document(tenants=(Tenant("shop", "premium", (), regions=("mars",)),))
    assert refused(previewed(elsewhere, rows)) == {"it may not be served in any region": (0, 3)}


def test_a_shorter_timeout_ends_what_took_longer_and_that_is_unavailable() -> None:
    rows = [request(0), request(1, queue_ms=900), request(2, queue_ms=900, tier="batch", tenant="other")]
    after = document(timeout_rules=(TimeoutRule("r", tier="premium", queue_ms=500),))
    result = previewed(after, rows)
    assert refused(result) == {"takes longer than queue_ms": (0, 1)}
    assert attained(result, "up")["after"] == [2 / 3, 2 / 3] and attained(result, "fast")["after"] == [1.0, 1.0]


def test_a_cache_that_is_off_answers_nothing_and_another_key_is_met_by_nobody_knows_how_many() -> None:
    rows = [request(at, cache="hit", codes=(0, 0)) for at in range(4)]
    off = previewed(model(cache=CacheRule("never")), rows)
    assert off["cache"] == {"answered": 4, "lost": 4, "unknown": 0}
    assert pools_of(off) == {"eu": (0.0, 4.0)}
    assert off["cost"] == {"before": 0.0, "after": 4.0, "requests": 4, "unknown": 0}
    assert attained(off, "fast")["after"] is None, "no pool answered one of these"
    alone = [request(cache="coalesced"), request(cache="semantic"), request(cache="hit")]
    assert previewed(model(cache=CacheRule(coalesce=False)), alone)["cache"] == {"answered": 3, "lost": 2, "unknown": 0}
    stale = CacheRule(stales_s={"chat": 9})
    for after in (
        model(prompt_version="2"),
        model(cache=CacheRule(ttl_s=60)),
        model(cache=CacheRule(scope="all")),
        model(cache=stale),
    ):
        result = previewed(after, rows)
        assert result["cache"] == {"answered": 4, "lost": 0, "unknown": 4} and pools_of(result) == {}
        assert attained(result, "fast")["unknown"] == 4


def test_what_no_recorded_request_shows_is_named() -> None:
    after = msgspec.structs.replace(
        model(hedge_ms=50, tokenizer="other", prompt_version="3"),
        tiers=(Tier("premium", 2, requests_per_minute=9), Tier("batch", 3)),
        timeouts=StageTimeouts(connect_ms=5, queue_ms=7),
    )
    said = ["model chat: tokenizer, hedge_ms", "tier premium: priority", "timeouts: connect_ms"]
    assert not_replayed(BEFORE, after) == said and not_replayed(BEFORE, BEFORE) == []
