"""What `weir bench --into-fleet` enters of a pool, over the real API."""

import dataclasses
from typing import Any

import msgspec
import pytest
from django.contrib.auth.models import User

from controlplane.accounts.models import ApiToken
from controlplane.fleet.models import FleetProposal, LLMModel, Pool, Region, Team, Variant
from controlplane.planning.inputs import plan_inputs
from controlplane.planning.models import GpuType, PoolCapacity, ReplicaCapacityEntry
from inference.contract.address import parse_url
from inference.loadtest.core.result import Result
from inference.loadtest.core.search import Highest
from inference.loadtest.entering import EnteringError, FleetPool

pytestmark = pytest.mark.django_db(transaction=True)
CONFIRMED = Highest(40.0, 40.0, 41.0, True, "", [])


@pytest.fixture
def pool() -> Pool:
    variant = Variant.objects.create(name="chat-v", model=LLMModel.objects.create(name="chat"))
    return Pool.objects.create(name="chat-eu", variant=variant, region=Region.objects.create(name="eu"), model_name="x")


@pytest.fixture
def fleet(live_server: Any, pool: Pool) -> FleetPool:
    _, token = ApiToken.objects.issue(User.objects.create_superuser("petra"), "bench", ["read", "plan"])
    return FleetPool(parse_url(live_server.url), token, "chat-eu", "h100")


def result(search: Highest | None = CONFIRMED, valid: bool = True, mean_output: float | None = 90.0) -> Result:
    return Result(
        url="http://10.0.0.7:8000/v1", model="chat",
        settings={"objective": ["p95 ttft <= 500ms"]}, machine={}, began="2026-11-26T10:00:00+00:00",
        valid=valid, faults=[], cut_short=False, took_s=1.0, requests={}, failures={}, said={}, per_second={},
        latency_ms={"e2e_from_sent": {"mean": 250.0}}, client_ms={}, client_cpu=0.1,
        tokens={"input": {"mean": 200.0}, "output": {"mean": mean_output}}, search=search,
    )  # fmt: skip


def test_a_confirmed_rate_is_what_the_plan_then_counts_with(fleet: FleetPool, pool: Pool) -> None:
    fleet.check()
    assert not ReplicaCapacityEntry.objects.exists() and not PoolCapacity.objects.exists(), (
        "the check entered something"
    )
    assert fleet.enter(result()) == "entered: a replica of chat-eu carries 40 requests/s on h100"
    [planned] = plan_inputs(0, 1).pools
    capacity = planned.capacities["h100"]
    assert (planned.gpu, capacity.source, capacity.requests_per_s) == ("h100", "benchmark", 40.0)
    assert capacity.mix is not None and dataclasses.astuple(capacity.mix) == (200.0, 90.0)
    assert (capacity.batching_factor, capacity.lower_bound) == (10.0, False), "40 requests/s that take 0.25 s"
    assert "http://10.0.0.7:8000/v1, p95 ttft <= 500ms" in capacity.reason
    fleet.enter(result(Highest(30.0, 30.0, 31.0, True, "", []), mean_output=None))
    entry = ReplicaCapacityEntry.objects.get()
    assert (entry.requests_per_s, entry.input_tokens, entry.output_tokens) == (30.0, None, None)


@pytest.mark.parametrize(
    "given",
    [result(None), result(valid=False), result(Highest(40.0, 40.0, None, False, "", [])), result(Highest(None, None, 1.0, True, "", []))],
)  # fmt: skip
def test_what_is_not_confirmed_is_not_entered(fleet: FleetPool, given: Result) -> None:
    with pytest.raises(EnteringError, match="is not confirmed, so it is not known what a replica carries"):
        fleet.enter(given)
    assert not ReplicaCapacityEntry.objects.exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"pool": "chat-us"}, "409 pool='chat-us': is not one of the fleet"),
        ({"gpu": ""}, "409 gpu='': is not known of chat-eu"),
        ({"token": "weir_api_wrong"}, "401"),
        ({"weir": parse_url("http://127.0.0.1:1")}, "127.0.0.1:1 does not answer as Weir does"),
    ],
)
def test_it_says_before_the_measuring_why_nothing_could_be_entered(
    fleet: FleetPool, change: dict[str, Any], said: str
) -> None:
    with pytest.raises(EnteringError, match=said):
        msgspec.structs.replace(fleet, **change).check()


def test_a_token_without_the_scope_enters_nothing(fleet: FleetPool, pool: Pool) -> None:
    ApiToken.objects.get().delete()
    _, token = ApiToken.objects.issue(User.objects.create_superuser("rita"), "bench", ["read"])
    with pytest.raises(EnteringError, match="403"):
        msgspec.structs.replace(fleet, token=token).enter(result())
    assert not GpuType.objects.exists()


def test_it_says_where_what_it_found_waits_for_an_approval(fleet: FleetPool, pool: Pool) -> None:
    LLMModel.objects.update(team=Team.objects.create(name="serving", requires_approval=True))
    said = fleet.enter(result())
    assert said == (
        f"not in force yet: another person has to approve it, at /changes/proposals/{FleetProposal.objects.get().pk} of localhost"
    )
    assert not ReplicaCapacityEntry.objects.exists()
