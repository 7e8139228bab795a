"""Where recorded requests would have gone under rules, and how fast and how dear that is expected to be."""

import math

import pytest

from controlplane.policy.preview.core.routed import PoolKnown, Speeds, bounds_of, moved, routed
from controlplane.telemetry.core.replayed_rows import BINS_PER_DECADE, RuledHour, RuledRow
from inference.contract.plan import Plans, plans_of
from inference.contract.rules import NO_OVERLAY, Route, RouteRule
from inference.contract.snapshot_parts import Model, Pool

MODEL = Model("chat", routes=(Route("eu", 75), Route("us", 25)))
POOLS = tuple(Pool(name, "fp16", name, "chat", "") for name in ("eu", "us", "mini"))
KNOWN = {
    "eu": PoolKnown("fp16", "eu", carries_rps=4.0, usd_per_request=0.01),
    "us": PoolKnown("fp16", "us", carries_rps=4.0, usd_per_request=0.02),
    "mini": PoolKnown("int8", "eu", carries_rps=None, usd_per_request=None),
}
LONG = RouteRule("p/long", "chat", min_prompt_tokens=1_000, max_prompt_tokens=8_000, routes=(Route("us"),))
BATCH = RouteRule("p/batch", "chat", tiers=("batch",), max_output_tokens=100)


def plans(*rules: RouteRule) -> Plans:
    return plans_of([MODEL], POOLS, ["standard", "batch"], rules, NO_OVERLAY)["chat"]


def row(requests: int, pool: str = "eu", ms: float | None = 100.0, **changes: object) -> RuledRow:
    at = None if ms is None else math.floor(math.log10(ms * 1e6) * BINS_PER_DECADE)
    values = {
        "tier": "standard", "tenant": "", "region": pool, "band": 0, "pool": pool, "bin": at, "requests": requests,
        "own": requests, "failed": 0, "longer": (0,),
    }  # fmt: skip
    return RuledRow(**values | changes)  # type: ignore[arg-type]


def document(rules: tuple[RouteRule, ...], rows: list[RuledRow], hours: list[RuledHour] | None = None) -> dict:  # type: ignore[type-arg]
    bounds = bounds_of(rules)
    return routed(plans(*rules), rules, bounds, rows, hours or [], [100], Speeds(rows), KNOWN)


def pools_of(side: dict) -> dict[str, int]:  # type: ignore[type-arg]
    return {each["pool"]: each["requests"] for each in side["pools"]}


def test_without_rules_requests_go_by_the_models_own_weights() -> None:
    side = document((), [row(400)])
    assert pools_of(side) == {"eu": 300, "us": 100}
    assert side["rules"] == [
        {"rule": "", "requests": 400, "share": 1.0, "tiers": {"standard": 400}, "shortened": None,
         "e2e_p50_ms": pytest.approx(100, rel=0.06), "e2e_p95_ms": pytest.approx(100, rel=0.06)}
    ]  # fmt: skip


def test_the_first_rule_that_matches_takes_a_request_and_both_ends_of_a_length_are_included() -> None:
    assert bounds_of([LONG, BATCH]) == (1_000, 8_001)
    rows = [
        row(10),
        row(20, band=1),
        row(40, band=2),
        row(80, tier="batch", longer=(30,)),
        row(5, tier="batch", band=1),
    ]
    side = document((LONG, BATCH), rows)
    assert [(each["rule"], each["requests"], each["shortened"]) for each in side["rules"]] == [
        ("p/long", 25, None), ("p/batch", 80, 30), ("", 50, None),
    ]  # fmt: skip
    assert side["rules"][0]["tiers"] == {"standard": 20, "batch": 5}
    assert pools_of(side) == {"eu": round(0.75 * 130), "us": round(0.25 * 130 + 25)}


def test_latency_is_expected_as_the_pool_recorded_it_for_such_prompts() -> None:
    rows = [row(100, "eu", 100.0), row(100, "us", 400.0), row(100, "us", 900.0, band=1), row(50, "eu", 200.0, band=1)]
    side = document((LONG,), rows)
    by_rule = {each["rule"]: each for each in side["rules"]}
    assert by_rule["p/long"]["e2e_p50_ms"] == pytest.approx(900, rel=0.06)
    assert by_rule[""]["e2e_p50_ms"] == pytest.approx(100, rel=0.06)
    assert by_rule[""]["e2e_p95_ms"] == pytest.approx(400, rel=0.06)


def test_a_pool_that_has_answered_too_little_has_no_expected_latency() -> None:
    to_mini = RouteRule("p/mini", "chat", routes=(Route("mini"),))
    side = document((to_mini,), [row(100), row(29, "mini", 10.0)])
    assert (side["e2e_p50_ms"], side["usd"]) == (None, None)
    assert side["pools"][0] | {"busiest_hour_rps": 0} == {
        "pool": "mini", "variant": "int8", "region": "eu", "requests": 129, "share": 1.0, "e2e_p50_ms": None, "e2e_p95_ms": None,
        "usd": None, "busiest_hour_rps": 0, "carries_rps": None,
    }  # fmt: skip


def test_answers_of_the_cache_need_no_pool() -> None:
    side = document((), [row(400, ms=None, own=100)])
    assert side["requests"] == 400
    assert pools_of(side) == {"eu": 75, "us": 25}


def test_cost_is_the_pools_and_the_busiest_hour_stands_beside_what_replicas_carry() -> None:
    hours = [RuledHour("standard", "", "eu", 0, hour, own) for hour, own in ((1, 3_600), (2, 36_000))]
    side = document((), [row(400)], hours)
    assert side["usd"] == pytest.approx(300 * 0.01 + 100 * 0.02)
    assert {each["pool"]: (each["busiest_hour_rps"], each["carries_rps"]) for each in side["pools"]} == {
        "eu": (7.5, 4.0),
        "us": (2.5, 4.0),
    }


def test_what_moves_is_counted_request_by_request_so_that_swaps_do_not_cancel() -> None:
    swapped = (
        RouteRule("p/a", "chat", tiers=("standard",), routes=(Route("us"),)),
        RouteRule("p/b", "chat", tiers=("batch",), routes=(Route("eu"),)),
    )
    first = (
        RouteRule("p/a", "chat", tiers=("standard",), routes=(Route("eu"),)),
        RouteRule("p/b", "chat", tiers=("batch",), routes=(Route("us"),)),
    )
    rows = [row(100), row(100, tier="batch")]
    assert moved(plans(*first), plans(*swapped), (), rows) == 200
    assert moved(plans(*first), plans(*first), (), rows) == 0
