"""Where a model and a tenant may be served holds whatever routes, rules, failovers, canaries and ladders say."""

from hypothesis import given
from hypothesis import strategies as st

from inference.contract.plan import Plan, plans_of
from inference.contract.rules import Degradation, Overlay, Route, RouteRule
from inference.contract.snapshot import Model, Pool

REGION = {"eu-a": "eu", "eu-b": "eu", "us-a": "us", "us-b": "us", "in": "in"}
POOLS = tuple(Pool(name, f"v-{name}", region, "m", "") for name, region in REGION.items())
EU = frozenset({"eu"})


def plan(model: Model, overlay: Overlay = Overlay(), *rules: RouteRule, regions: frozenset[str] = EU) -> Plan:  # noqa: B008
    plans = plans_of([model], POOLS, ("standard",), rules, overlay, regions)["chat"]
    return plans.only or plans.choose("standard", "acme", "", lambda: 10)


def test_a_failover_to_another_region_leaves_a_pinned_tenant_where_it_is() -> None:
    model = Model("chat", (Route("eu-a"),), fallbacks=("us-b",))
    failed = Overlay(1, routes={"chat": (Route("us-a"),)}, instead={"eu-a": ("us-a",)})
    assert plan(model, failed, regions=frozenset()).routes == (Route("us-a"),)
    assert (plan(model, failed).routes, plan(model, failed).fallbacks) == ((Route("eu-a"),), ())


def test_of_the_places_of_a_failover_the_allowed_ones_count() -> None:
    model = Model("chat", (Route("eu-a"),))
    failed = Overlay(1, routes={"chat": (Route("us-a", 90), Route("eu-b", 10))}, instead={"eu-a": ("us-a", "eu-b")})
    assert {route.pool for route in plan(model, failed).routes} == {"eu-b"}


def test_a_model_has_regions_of_its_own_and_both_count() -> None:
    model = Model("chat", (Route("eu-a"), Route("us-a"), Route("in")), regions=("eu", "us"))
    assert {route.pool for route in plan(model, regions=frozenset()).routes} == {"eu-a", "us-a"}
    assert {route.pool for route in plan(model, regions=frozenset({"us", "in"})).routes} == {"us-a"}
    assert plan(model, regions=frozenset({"in"}))[:2] == ((), ())


names = st.sampled_from(sorted(REGION))
routes = st.lists(st.builds(Route, names, st.integers(0, 100)), max_size=3).map(tuple)
several = st.lists(names, max_size=3, unique=True).map(tuple)
overlays = st.builds(
    Overlay,
    version=st.just(1),
    routes=st.dictionaries(st.just("chat"), routes.filter(bool)),
    instead=st.dictionaries(names, several.filter(bool)),
    canary=st.dictionaries(st.just("chat"), st.dictionaries(names, st.integers(0, 100), max_size=2)),
    degradation=st.lists(
        st.builds(Degradation, st.just("chat"), st.just(""), st.just(1), st.just("s"), pool=names), max_size=1
    ).map(tuple),
)
rules = st.lists(st.builds(RouteRule, st.just("r"), st.just("chat"), routes=routes, fallbacks=several), max_size=2)
regions = st.frozensets(st.sampled_from(["eu", "us", "in"]), max_size=2)


@given(routes, several, overlays, rules, regions, regions)
def test_no_plan_leads_out_of_the_regions(
    own: tuple[Route, ...],
    fallbacks: tuple[str, ...],
    overlay: Overlay,
    of_owner: list[RouteRule],
    of_model: frozenset[str],
    of_tenant: frozenset[str],
) -> None:
    model = Model("chat", own, fallbacks=fallbacks, regions=tuple(of_model))
    made = plan(model, overlay, *of_owner, regions=of_tenant)
    led = {*(route.pool for route in made.routes), *made.fallbacks, *(made.step.pools if made.step else ())}
    for allowed in (of_model, of_tenant):
        assert not allowed or {REGION[pool] for pool in led} <= allowed
