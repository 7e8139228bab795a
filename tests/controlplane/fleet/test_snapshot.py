"""The rendered document is one the gateway accepts, whatever the fleet looks like."""

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from controlplane.fleet.core.snapshot import (
    FleetValues,
    ModelValue,
    PoolValue,
    ReplicaValue,
    TenantValue,
    content_sha256,
    endpoints_sha256,
    render,
)
from inference.contract.snapshot import CacheRule, RouteRule, Tier, check, encode

NAMES = st.sampled_from(["alpha", "beta", "gamma", "delta"])
TIERS = (Tier("premium", 1), Tier("standard", 2))


def model(name: str, *, enabled: bool = True) -> ModelValue:
    return ModelValue(name, enabled, "tekken", 32_768, 4_096, "1", CacheRule())


def pool(name: str, model: str, *replicas: str, enabled: bool = True) -> PoolValue:
    values = tuple(ReplicaValue(one, f"{one}:8001") for one in replicas)
    return PoolValue(name, model, f"{model}-small", "local", "m", "1", enabled=enabled, replicas=values)


replicas = st.lists(
    st.builds(ReplicaValue, NAMES, NAMES.map("{}:8001".format), st.booleans()),
    max_size=3,
    unique_by=lambda one: one.name,
)
pools = st.builds(
    PoolValue, name=NAMES, model=NAMES, variant=NAMES, region=NAMES, model_name=NAMES, model_version=st.just("1"),
    weight=st.integers(1, 100), enabled=st.booleans(), replicas=replicas.map(tuple),
)  # fmt: skip
tenants = st.builds(
    TenantValue, NAMES, st.sampled_from([tier.name for tier in TIERS]), st.booleans(), st.just(("ab" * 32,))
)
fleets = st.builds(
    FleetValues,
    models=st.lists(st.builds(model, NAMES, enabled=st.booleans()), unique_by=lambda one: one.name).map(tuple),
    pools=st.lists(pools, unique_by=lambda one: one.name).map(tuple),
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
        pools=tuple(
            chance.sample([replace(one, replicas=one.replicas[::-1]) for one in fleet.pools], len(fleet.pools))
        ),
        tiers=fleet.tiers[::-1],
        tenants=tuple(chance.sample(fleet.tenants, len(fleet.tenants))),
    )
    assert encode(render(shuffled, 7)) == encode(render(fleet, 7))


@given(fleets)
def test_requests_go_only_to_enabled_replicas_of_enabled_pools(fleet: FleetValues) -> None:
    document = render(fleet, 7)
    enabled = {pool.name: pool for pool in fleet.pools if pool.enabled}
    for rendered in document.pools:
        assert {one.replica for one in rendered.endpoints} == {
            one.name for one in enabled[rendered.name].replicas if one.enabled
        }


@given(fleets)
def test_replicas_do_not_matter_for_what_owners_entered(fleet: FleetValues) -> None:
    without = replace(fleet, pools=tuple(replace(one, replicas=()) for one in fleet.pools))
    assert content_sha256(render(fleet, 1)) == content_sha256(render(without, 1))
    assert render(fleet, 1).models == render(without, 1).models
    endpoints = any(one.endpoints for one in render(fleet, 1).pools)
    assert (endpoints_sha256(render(fleet, 1)) != endpoints_sha256(render(without, 1))) == endpoints


@given(fleets)
def test_the_version_is_no_part_of_the_content(fleet: FleetValues) -> None:
    assert content_sha256(render(fleet, 1)) == content_sha256(render(fleet, 2))


def test_every_change_that_matters_changes_the_content() -> None:
    fleet = FleetValues(
        (model("chat"),), (pool("near", "chat", "a"),), TIERS, (TenantValue("demo", "standard", True, ("aa",)),)
    )
    before = content_sha256(render(fleet, 1))
    changes = [
        replace(fleet, models=(replace(fleet.models[0], prompt_version="2"),)),
        replace(fleet, pools=(replace(fleet.pools[0], max_queue=1),)),
        replace(fleet, rules=(RouteRule("rule", "chat"),)),
        replace(fleet, tenants=(TenantValue("demo", "standard", True, ("bb",)),)),
        replace(fleet, tenants=(TenantValue("demo", "premium", True, ("aa",)),)),
        replace(fleet, tiers=(Tier("premium", 1), Tier("standard", 3))),
    ]
    assert before not in {content_sha256(render(changed, 1)) for changed in changes}


def test_a_model_without_a_pool_is_left_out() -> None:
    document = render(FleetValues((model("chat"), model("lonely")), (pool("near", "chat", "a"),), TIERS), 1)
    assert [one.name for one in document.models] == ["chat"]


def test_a_disabled_model_takes_its_pools_along() -> None:
    document = render(FleetValues((model("chat", enabled=False),), (pool("near", "chat", "a"),), TIERS), 1)
    assert (document.models, document.pools) == ((), ())


def test_a_disabled_tenant_has_no_keys_in_the_document() -> None:
    document = render(FleetValues(tiers=TIERS, tenants=(TenantValue("demo", "standard", False, ("aa",)),)), 1)
    assert document.tenants == ()
