"""From rules, an overlay and what is known of a request to what is done with it."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contract.plan import Plan, Plans, plans_of
from inference.contract.rules import NO_OVERLAY, Degradation, Overlay, Route, RouteRule
from inference.contract.snapshot import Model, Pool

MODEL = Model("chat", (Route("edge", 30), Route("central", 70)), fallbacks=("spare",))
POOLS = tuple(
    Pool(name, variant, "r", "m", "")
    for name, variant in (
        ("edge", "small"),
        ("central", "large"),
        ("spare", "large"),
        ("tiny-a", "tiny"),
        ("tiny-b", "tiny"),
    )
)
TIERS = ("standard", "premium")


def plans(*rules: RouteRule, overlay: Overlay = NO_OVERLAY) -> Plans:
    return plans_of([MODEL], POOLS, TIERS, rules, overlay)["chat"]


def plan(given: Plans, tier: str = "standard", tenant: str = "alice", region: str = "eu", tokens: int = 100) -> Plan:
    return given.only or given.choose(tier, tenant, region, lambda: tokens)


def weights(routes: tuple[Route, ...]) -> dict[str, float]:
    total = sum(route.weight for route in routes)
    return {route.pool: route.weight / total for route in routes}


def test_without_policies_there_is_a_plan_for_all_requests() -> None:
    assert plans().only == Plan(MODEL.routes, ("spare",), "deterministic")


@pytest.mark.parametrize(
    ("rule", "matching", "other"),
    [
        ({"tiers": ("premium",)}, {"tier": "premium"}, {"tier": "standard"}),
        ({"tenants": ("bob",)}, {"tenant": "bob"}, {"tenant": "alice"}),
        ({"regions": ("eu", "us")}, {"region": "us"}, {"region": ""}),
        ({"min_prompt_tokens": 100}, {"tokens": 100}, {"tokens": 99}),
        ({"max_prompt_tokens": 100}, {"tokens": 100}, {"tokens": 101}),
    ],
)
def test_a_rule_is_for_the_requests_that_it_names(rule: dict, matching: dict, other: dict) -> None:  # type: ignore[type-arg]
    given = plans(RouteRule("p/r", "chat", routes=(Route("edge"),), **rule))
    assert (plan(given, **matching).rule, plan(given, **other).rule) == ("p/r", "")
    assert plan(given, **matching).routes == (Route("edge"),)
    assert plan(given, **other).routes == MODEL.routes


def test_of_several_rules_the_first_counts_and_lengths_are_worked_out_at_most_once() -> None:
    given = plans(
        RouteRule("p/vip", "chat", tenants=("vip",), priority=1),
        RouteRule("p/short", "chat", max_prompt_tokens=50, routes=(Route("edge"),)),
        RouteRule("p/middle", "chat", max_prompt_tokens=500, deadline_ms=1500),
        RouteRule("p/other", "other"),
    )
    counted: list[int] = []

    def tokens() -> int:
        counted.append(1)
        return 60

    assert given.choose("standard", "vip", "", tokens).rule == "p/vip"
    assert counted == []
    chosen = given.choose("standard", "alice", "", tokens)
    assert (chosen.rule, chosen.deadline_s, len(counted)) == ("p/middle", 1.5, 1)


def test_what_a_rule_leaves_out_stays_as_it_is() -> None:
    bare = plan(plans(RouteRule("p/r", "chat", max_output_tokens=9)))
    assert (bare.routes, bare.fallbacks, bare.cache, bare.max_output_tokens) == (
        MODEL.routes,
        ("spare",),
        "deterministic",
        9,
    )
    fallbacks = plan(plans(RouteRule("p/r", "chat", fallbacks=("tiny-a",), cache="never")))
    assert (fallbacks.routes, fallbacks.fallbacks, fallbacks.cache) == (MODEL.routes, ("tiny-a",), "never")


def test_a_canary_shares_what_its_pools_have_together() -> None:
    overlay = Overlay(canary={"chat": {"central": 90, "tiny-a": 10}})
    assert weights(plan(plans(overlay=overlay)).routes) == pytest.approx({"edge": 0.3, "central": 0.63, "tiny-a": 0.07})
    pinned = plans(RouteRule("p/r", "chat", routes=(Route("edge"),)), overlay=overlay)
    assert plan(pinned).routes == (Route("edge"),), "a rule that leads elsewhere has no part in it"


def test_a_pool_that_is_failed_over_from_gets_nothing_whoever_named_it() -> None:
    overlay = Overlay(
        routes={"chat": (Route("central"),)},
        instead={"edge": ("central", "spare")},
        degradation=(Degradation("chat", "premium", 1, "edge alone", pool="edge"),),
    )
    given = plans(RouteRule("p/r", "chat", tenants=("bob",), routes=(Route("edge"),)), overlay=overlay)
    assert plan(given).routes == (Route("central"),)
    ruled = plan(given, tenant="bob")
    assert (ruled.routes, ruled.fallbacks) == ((Route("central", 100),), ("spare",))
    step = plan(given, tier="premium").step
    assert step is not None
    assert step.pools == ("central", "spare")


def test_steps_of_a_tier_count_together_and_a_higher_one_wins() -> None:
    given = plans(
        overlay=Overlay(
            degradation=(
                Degradation("chat", "standard", 2, "short", max_output_tokens=32, partial=True),
                Degradation("chat", "standard", 1, "small", variant="tiny", max_output_tokens=64),
                Degradation("chat", "", 3, "cached", cached_only=True, retry_after_s=7),
                Degradation("other", "standard", 4, "shed", shed=True),
            )
        )
    )
    step = plan(given).step
    assert step is not None
    assert (step.name, step.pools, step.max_output_tokens, step.partial) == ("cached", ("tiny-a", "tiny-b"), 32, True)
    assert (step.cached_only, step.shed, step.retry_after_s) == (True, False, 7)
    premium = plan(given, tier="premium").step
    assert premium is not None
    assert (premium.name, premium.pools) == ("cached", ())
    assert plan(given, tier="of a tenant whose tier has left").step is None


names = st.sampled_from([pool.name for pool in POOLS])
routes = st.lists(st.builds(Route, names, st.integers(-5, 100)), max_size=3).map(tuple)
overlays = st.builds(
    Overlay,
    routes=st.dictionaries(st.just("chat"), routes.filter(len)),
    instead=st.dictionaries(names, st.lists(names, min_size=1, max_size=3).map(tuple)),
    canary=st.dictionaries(st.just("chat"), st.dictionaries(names, st.integers(-5, 100))),
    degradation=st.lists(
        st.builds(
            Degradation,
            st.just("chat"),
            st.sampled_from(["", *TIERS]),
            st.integers(-1, 5),
            st.text(max_size=5),
            pool=st.one_of(st.just(""), names),
            variant=st.sampled_from(["", "tiny", "none"]),
            max_output_tokens=st.integers(-5, 100),
            retry_after_s=st.floats(allow_nan=False),
        ),
        max_size=4,
    ).map(tuple),
)
rules = st.lists(
    st.builds(
        RouteRule,
        st.text(max_size=5),
        st.just("chat"),
        routes=routes,
        fallbacks=st.lists(names, max_size=2).map(tuple),
        deadline_ms=st.integers(-5, 5),
        priority=st.integers(-5, 5),
    ),
    max_size=3,
)


@given(rules, overlays, st.sampled_from(TIERS))
def test_whatever_the_document_says_a_request_has_somewhere_to_go(
    rules: list[RouteRule], overlay: Overlay, tier: str
) -> None:
    chosen = plan(plans(*rules, overlay=msgspec.structs.replace(overlay)), tier=tier)
    known = {pool.name for pool in POOLS}
    assert chosen.routes
    assert known.issuperset(route.pool for route in chosen.routes)
    assert known.issuperset(chosen.fallbacks)
    assert min(chosen.deadline_s, chosen.priority, chosen.max_output_tokens) >= 0
    for _, value in chosen.headers:
        assert value.decode("ascii").isprintable()
    if chosen.step is not None:
        assert known.issuperset(chosen.step.pools)
        assert 1 <= chosen.step.retry_after_s <= 3600
        assert chosen.step.max_output_tokens >= 0
