"""Pools of model servers in the policy snapshot: what is left out of them, and why."""

from collections.abc import Callable
from typing import Any

import pytest

from inference.contract.address import Url, parse_base_url, parse_url
from inference.contract.snapshot import Checked, Endpoint, check
from tests.support.gateway import documents
from tests.support.gateway.process import LARGE, SMALL, a_snapshot

URL = "http://10.0.0.7:8000/v1"


def changed(change: Callable[[Any], None]) -> Checked:
    """Two models, the second in a pool of two servers with OpenAI's API, after `change` of that pool and its model."""

    def with_servers(parts: Any) -> None:
        endpoints = [{"replica": "r0", "url": URL}, {"replica": "r1", "url": "https://b.example/v1", "metrics": ""}]
        parts["pools"][1] |= {"protocol": "openai", "endpoints": endpoints}
        change(parts)

    return check(documents.changed(a_snapshot("127.0.0.1:8001"), with_servers))


def test_a_pool_of_model_servers_is_obeyed() -> None:
    document, faults, _ = changed(
        lambda it: it["pools"][1]["endpoints"][0].update(metrics="http://10.0.0.7:8000/metrics")
    )
    assert not faults
    assert document.pools[1].endpoints == (
        Endpoint("r0", url=URL, metrics="http://10.0.0.7:8000/metrics"),
        Endpoint("r1", url="https://b.example/v1"),
    )


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (
            lambda it: it["pools"][1]["endpoints"][0].update(url="10.0.0.7:8000"),
            "replica 'r0': '10.0.0.7:8000' does not begin with http:// or https://: write a URL such as",
        ),
        (
            lambda it: it["pools"][1]["endpoints"][0].update(url="http://a:b@c/v1"),
            "replica 'r0': the URL of host 'c' carries a user or password: leave it out, and name a credential",
        ),
        (lambda it: it["pools"][1]["endpoints"][0].update(url=""), "replica 'r0': '' does not begin with http://"),
    ],
)
def test_a_bad_url_leaves_the_pools_other_replica(change: Callable[[Any], None], fault: str) -> None:
    document, faults, _ = changed(change)
    assert [str(one)[: len(fault) + 19] for one in faults] == [f"pool 'chat-large': {fault}"]
    assert [one.replica for one in document.pools[1].endpoints] == ["r1"]


def test_a_bad_metrics_page_leaves_the_replica() -> None:
    document, faults, _ = changed(lambda it: it["pools"][1]["endpoints"][0].update(metrics="metrics"))
    assert [fault.reason.partition(":")[0] for fault in faults] == ["replica 'r0', metrics"]
    assert document.pools[1].endpoints[0] == Endpoint("r0", url=URL)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda pool: pool.update(credential="../secret"), "credential '../secret' is not a name: use letters"),
        (
            lambda pool: pool.update(headers=[{"name": "a b", "value": "x"}]),
            "'a b' is not the name of a header: write one",
        ),
        (lambda pool: pool.update(headers=[{"name": "x", "secret": "../a"}]), "the secret of header x '../a' is not"),
        (lambda pool: pool.update(proxy="https://p:1/x"), "'https://p:1/x' is not a proxy: write its address"),
        (lambda pool: pool["tls"].update(ca="/etc/ca.pem"), "tls.ca '/etc/ca.pem' is not a name: use letters"),
        (
            lambda pool: pool.update(signature="mapping"),
            "signature 'mapping' needs `mapping`: name the model's tensors",
        ),
        (
            lambda pool: pool.update(signature="mapping", mapping={"inputs": [], "outputs": []}),
            "mapping has no input with the value",
        ),
    ],
)
def test_a_pool_that_cannot_be_is_left_out(change: Callable[[Any], None], reason: str) -> None:
    document, faults, _ = changed(lambda it: change(it["pools"][1]))
    assert [(one.kind, one.name) for one in faults] == [("pool", LARGE), ("model", LARGE)]
    assert faults[0].reason.startswith(reason)
    assert [model.name for model in document.models] == [SMALL]


def test_a_fallback_that_is_no_pool_is_left_out() -> None:
    document, faults, _ = changed(lambda it: it["models"][0].update(fallbacks=["nowhere", LARGE]))
    assert [str(fault) for fault in faults] == [
        "model 'chat-small': fallback 'nowhere' is a pool that `pools` does not have"
    ]
    assert document.models[0].fallbacks == (LARGE,)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://10.0.0.7:8000/v1/", Url("http", "10.0.0.7", 8000, "/v1")),
        ("https://models.example.com/openai/v1", Url("https", "models.example.com", 443, "/openai/v1")),
        ("http://[::1]:8000/v1", Url("http", "::1", 8000, "/v1")),
        ("https://a/openai/d/gpt?api-version=1", Url("https", "a", 443, "/openai/d/gpt", "api-version=1")),
        ("HTTP://Vllm-0.chat.svc/v1", Url("http", "vllm-0.chat.svc", 80, "/v1")),
    ],
)
def test_urls_are_read(text: str, url: Url) -> None:
    assert parse_base_url(text) == url


@pytest.mark.parametrize(
    "text",
    ["", "http://", "http:///v1", "ftp://a/v1", "http://a:0/v1", "http://a:x/v1", "http://a b/v1", "http://a/v1\n", "//a/v1",
     "http://a/v1?x=1", "http://a/v1#x", "http://a..b/v1", "http://2852039166/v1", "http://0xa9fea9fe/v1",
     "http://169.254.43518/v1", "http://010.0.0.7/v1", "http://[::1/v1", "http://a\t/v1"],
)  # fmt: skip
def test_a_url_that_is_none_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(ValueError, match=r"write|leave"):
        parse_url(text)


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "[fe80::1]",
        "[::ffff:169.254.169.254]",
        "metadata.google.internal",
        "[fd00:ec2::254]",
        "100.100.100.200",
    ],
)
def test_a_clouds_metadata_is_no_model_server_unless_that_is_allowed(host: str) -> None:
    url = f"http://{host}/v1"
    with pytest.raises(ValueError, match="WEIR_BACKEND_LINK_LOCAL=true"):
        parse_url(url)
    assert parse_url(url, link_local=True).path == "/v1"
    servers = {"protocol": "openai", "endpoints": [{"replica": "r0", "url": url}]}
    raw = documents.changed(a_snapshot("127.0.0.1:8001"), lambda it: it["pools"][1].update(servers))
    assert [fault.kind for fault in check(raw).faults] == ["pool"]
    assert check(raw, link_local=True).faults == ()


def test_the_base_of_an_api_has_a_path() -> None:
    with pytest.raises(ValueError, match=r"write the base of the API, such as http://a:8000/v1"):
        parse_base_url("http://a:8000/")
