"""A part of the policy snapshot that cannot be obeyed harms no other part."""

from collections.abc import Callable
from typing import Any

import pytest

from inference.contract import snapshot
from inference.contract.address import parse_address
from inference.contract.snapshot import SnapshotError, WarmUp, check
from tests.support.gateway.documents import changed
from tests.support.gateway.process import LARGE, SMALL, a_snapshot

IDS = {
    "inputs": [{"name": "a", "datatype": "INT32", "value": "prompt_ids"}],
    "outputs": [{"name": "b", "datatype": "INT32", "value": "token_ids"}],
}


def document(change: Callable[[Any], None]) -> bytes:
    """Two models, each with a pool of its own, after `change`."""
    return changed(a_snapshot("127.0.0.1:8001", "127.0.0.1:8002"), change)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (
            lambda it: it["models"][1].update(tokenizer="../tekken"),
            "model 'chat-large': tokenizer '../tekken' is not a name: write tekken, server, estimate, or a folder of tokenizers",
        ),
        (
            lambda it: it["models"][1]["routes"][0].update(pool="nowhere"),
            "model 'chat-large': its routes lead to 'nowhere', which `pools` does not have: add a route to one of the pools",
        ),
        (
            lambda it: it["pools"][1].update(signature="mapping", mapping=IDS),
            "model 'chat-large': pool 'chat-large' takes token ids: enter the folder of the model's own tokenizer",
        ),
        (lambda it: it["models"][1].update(routes=[]), "model 'chat-large': no route: add a route to one of the pools"),
        (
            lambda it: it["models"][1]["cache"].update(mode="sometimes"),
            "model 'chat-large': Invalid enum value 'sometimes' - at `$.cache.mode`",
        ),
        (
            lambda it: it["models"][1].update(name=SMALL),
            "model 'chat-small': there are two of this name: rename or remove one",
        ),
        (lambda it: it["models"].insert(1, 7), "model 'number 2': Expected `object`, got `int`"),
    ],
)
def test_a_bad_model_leaves_the_others(change: Callable[[Any], None], fault: str) -> None:
    checked = check(document(change))
    assert checked.snapshot.models[0].name == SMALL
    assert str(checked.faults[0]) == fault
    assert len(checked.snapshot.pools) == 2


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "::1:8001", "a..b:1", "", "x" * 64 + ":1"]
)
def test_a_bad_address_leaves_the_pools_other_replica(address: str) -> None:
    checked = check(document(lambda it: it["pools"][1]["endpoints"][0].update(grpc=address)))
    (fault,) = checked.faults
    assert (fault.kind, fault.name) == ("pool", LARGE)
    assert fault.reason.startswith(f"replica 'r0': {address!r} ")
    assert "write host:port" in fault.reason
    assert [[one.replica for one in pool.endpoints] for pool in checked.snapshot.pools] == [["r0", "r1"], ["r1"]]


@pytest.mark.parametrize("requests", [-1, 101])
def test_a_warm_up_without_bounds_leaves_the_pool_without_one(requests: int) -> None:
    checked = check(document(lambda it: it["pools"][1].update(warm_up={"requests": requests, "prompt": "Say no."})))
    assert [pool.warm_up for pool in checked.snapshot.pools] == [WarmUp(), WarmUp()]
    assert [str(fault) for fault in checked.faults] == [
        f"pool 'chat-large': warm_up.requests {requests} is not from 0 to 100: none is sent"
    ]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda it: it["pools"][1].update(max_concurrency=0), "Expected `int` >= 1 - at `$.max_concurrency`"),
        (lambda it: it["pools"][1].update(max_queue=2**31), "Expected `int` <= 2147483647 - at `$.max_queue`"),
        (lambda it: it["models"][1].update(hedge_ms=-1), "Expected `int` >= 0 - at `$.hedge_ms`"),
        (lambda it: it["tiers"][1].update(priority=2**70), "Expected `int` <= 100 - at `$.priority`"),
    ],
)
def test_a_number_that_no_request_could_be_served_with_takes_only_its_part(
    change: Callable[[Any], None], fault: str
) -> None:
    checked = check(document(change))
    assert any(fault in str(each) for each in checked.faults), checked.faults
    assert checked.snapshot.models[0].name == SMALL


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b'{"version": 1, "models": ["\xff"]}', "it is not UTF-8"),
        (b'{"a":' * 20_000 + b"1", "its lists and objects are nested too deeply"),
    ],
)
def test_a_document_that_is_no_text_or_has_no_end_is_refused_like_others(raw: bytes, reason: str) -> None:
    with pytest.raises(SnapshotError, match=reason):
        check(raw)


def test_a_bad_pool_takes_the_models_route_and_no_more() -> None:
    def change(it: Any) -> None:
        it["models"][1]["routes"].append({"pool": SMALL})
        it["pools"][1]["protocol"] = "telegraph"

    checked = check(document(change))
    assert [str(fault) for fault in checked.faults] == [
        "pool 'chat-large': Invalid enum value 'telegraph' - at `$.protocol`",
        "model 'chat-large': a route leads to pool 'chat-large', which `pools` does not have",
    ]
    assert [route.pool for route in checked.snapshot.models[1].routes] == [SMALL]


def test_a_bad_tier_takes_its_tenants_and_no_others() -> None:
    checked = check(document(lambda it: it["tiers"][0].update(priority="first")))
    assert [(fault.kind, fault.name) for fault in checked.faults] == [("tier", "standard"), ("tenant", "alice")]
    assert [tenant.name for tenant in checked.snapshot.tenants] == ["bob"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda it: it.update(pools=[]), "no model of it can be served: model 'chat-small': its routes lead to"),
        (
            lambda it: it.update(tiers=[]),
            "no tenant of it can be served: tenant 'alice': tier 'standard' is not one of none",
        ),
        (lambda it: it.pop("models"), "not a policy snapshot: Object missing required field `models`"),
        (lambda it: it["timeouts"].update(cache_ms="soon"), "not a policy snapshot: Expected `int`, got `str`"),
    ],
)
def test_a_document_of_which_nothing_is_left_is_refused(change: Callable[[Any], None], reason: str) -> None:
    with pytest.raises(SnapshotError) as caught:
        check(document(change))
    assert str(caught.value).startswith(reason)


def test_a_good_document_comes_back_as_it_was() -> None:
    given = a_snapshot("127.0.0.1:8001", "[::1]:8001", "triton-0.chat_eu.svc:8001")
    assert check(snapshot.encode(given)) == (given, (), ())


@pytest.mark.parametrize("address", ["", "host", "host:", ":80", "host:0", "host:65536", "host:x", "::1:80", "host:٣"])
def test_an_address_that_is_none_is_named_with_the_remedy(address: str) -> None:
    with pytest.raises(ValueError, match="write host:port") as caught:
        parse_address(address)
    assert repr(address) in str(caught.value)
