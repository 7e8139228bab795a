"""The rendered document is one the gateway accepts, whatever the fleet looks like."""

import random
from dataclasses import replace
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from controlplane.fleet.core.snapshot import FleetValues, ServingPool, content_sha256, endpoints_sha256, render
from inference.contract.snapshot import Endpoint, Model, Pool, RouteRule, Tenant, Tier, check, encode

NAMES = st.sampled_from(["alpha", "beta", "gamma", "delta"])
TIERS = (Tier("premium", 1), Tier("standard", 2))


def pool(name: str, model: str, *replicas: str, weight: int = 100, **fields: Any) -> ServingPool:
    endpoints = tuple(Endpoint(one, f"{one}:8001") for one in replicas)
    return ServingPool(Pool(name, f"{model}-small", "local", "m", "1", endpoints, **fields), model, weight)


def without_replicas(each: ServingPool) -> ServingPool:
    return replace(each, pool=msgspec.structs.replace(each.pool, endpoints=()))


pools = st.builds(
    lambda name, model, weight, replicas: pool(name, model, *replicas, weight=weight),
    NAMES, NAMES, st.integers(1, 100), st.lists(NAMES, max_size=3, unique=True),
)  # fmt: skip
models = st.builds(Model, NAMES, st.just(()), fallbacks=st.lists(NAMES, max_size=2, unique=True).map(tuple))
tenants = st.builds(Tenant, NAMES, st.sampled_from([tier.name for tier in TIERS]), st.just(("ab" * 32,)))
fleets = st.builds(
    FleetValues,
    models=st.lists(models, unique_by=lambda one: one.name).map(tuple),
    pools=st.lists(pools, unique_by=lambda one: one.pool.name).map(tuple),
    tiers=st.just(TIERS),
    tenants=st.lists(tenants, unique_by=lambda one: one.name).map(tuple),
)


@given(fleets)
def test_the_gateway_accepts_every_rendered_document(fleet: FleetValues) -> None:
    document = render(fleet, 7)
    assert check(encode(document)).snapshot == document


@given(fleets, st.randoms())
def test_the_order_of_rows_does_not_matter(fleet: FleetValues, chance: random.Random) -> None:
    shuffled = FleetValues(
        models=tuple(chance.sample(fleet.models, len(fleet.models))),
        pools=tuple(chance.sample(fleet.pools, len(fleet.pools))),
        tiers=fleet.tiers[::-1],
        tenants=tuple(chance.sample(fleet.tenants, len(fleet.tenants))),
    )
    assert encode(render(shuffled, 7)) == encode(render(fleet, 7))


@given(fleets)
def test_replicas_do_not_matter_for_what_owners_entered(fleet: FleetValues) -> None:
    without = replace(fleet, pools=tuple(map(without_replicas, fleet.pools)))
    assert content_sha256(render(fleet, 1)) == content_sha256(render(without, 1))
    assert render(fleet, 1).models == render(without, 1).models
    endpoints = any(one.endpoints for one in render(fleet, 1).pools)
    assert (endpoints_sha256(render(fleet, 1)) != endpoints_sha256(render(without, 1))) == endpoints


@given(fleets)
def test_the_version_is_no_part_of_the_content(fleet: FleetValues) -> None:
    assert content_sha256(render(fleet, 1)) == content_sha256(render(fleet, 2))


def test_every_change_that_matters_changes_the_content() -> None:
    tenant = Tenant("demo", "standard", ("aa",))
    fleet = FleetValues((Model("chat", ()),), (pool("near", "chat", "a"),), TIERS, (tenant,))
    before = content_sha256(render(fleet, 1))
    changes = [
        replace(fleet, models=(Model("chat", (), prompt_version="2"),)),
        replace(fleet, pools=(pool("near", "chat", "a", max_queue=1),)),
        replace(fleet, rules=(RouteRule("rule", "chat"),)),
        replace(fleet, tenants=(msgspec.structs.replace(tenant, key_sha256=("bb",)),)),
        replace(fleet, tenants=(msgspec.structs.replace(tenant, tier="premium"),)),
        replace(fleet, tiers=(Tier("premium", 1), Tier("standard", 3))),
    ]
    assert before not in {content_sha256(render(changed, 1)) for changed in changes}


def test_a_model_without_a_pool_is_left_out() -> None:
    document = render(FleetValues((Model("chat", ()), Model("lonely", ())), (pool("near", "chat", "a"),), TIERS), 1)
    assert [one.name for one in document.models] == ["chat"]


def test_a_pool_of_no_model_takes_no_place() -> None:
    document = render(FleetValues((), (pool("near", "chat", "a"),), TIERS), 1)
    assert (document.models, document.pools) == ((), ())
