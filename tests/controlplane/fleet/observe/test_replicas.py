"""What is known of a replica: what its server says, and what the gateway says of it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from controlplane.fleet.core.detected import describe
from controlplane.fleet.observe import probes
from controlplane.fleet.observe.core.gateway_report import reports
from controlplane.fleet.observe.core.reading import Reading
from controlplane.fleet.observe.round import Target, look
from deploy.local.ports import free_port
from tests.support.http_server import serving

PAGE = """\
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="tiny"} 3.0
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 8.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.25
"""
VLLM = {"state": "up", "kind": "vllm", "version": "0.32.0", "models": ["tiny"], "context_length": 2048}


@asynccontextmanager
async def server(pages: dict[str, tuple[int, str]]) -> AsyncIterator[str]:
    async def answer(request: web.Request) -> web.Response:
        seen.append(request.path)
        status, text = pages[request.path]
        return web.Response(status=status, text=text)

    seen: list[str] = []
    async with serving(*(web.get(path, answer) for path in pages)) as url:
        yield url
        assert seen.count("/readyz") <= 1


def ready(**replica: Any) -> dict[str, tuple[int, str]]:
    """The gateway's /readyz about `near/r0`, beside a metrics page."""
    body = {"status": "ready", "pools": {"near": {"ready": 1, "replicas": 1, "servers": {"r0": replica}}}}
    return {"/readyz": (200, json.dumps(body)), "/metrics": (200, PAGE)}


async def observed(pages: dict[str, tuple[int, str]], metrics: str = "/metrics", gateway: str = "") -> Reading:
    async with server(pages) as url:
        said = probes.GatewayReports(gateway or url, "", 2)
        probe = probes.openai_replica(metrics and url + metrics, said, "near", "r0")
        twin = probes.triton_replica(None, said, "near", "r1")
        seen, _ = await look([Target("near/r0", "replica", probe), Target("near/r1", "replica", twin)], 5)
    return seen.reading


async def test_a_replica_shows_its_load_and_what_the_gateway_found_it_to_be() -> None:
    reading = await observed(ready(**VLLM))
    assert (reading.state, reading.error) == ("up", "")
    assert {name: reading.figures[name] for name in ("waiting", "running", "kv_use_ratio")} == {
        "waiting": 3,
        "running": 8,
        "kv_use_ratio": 0.25,
    }
    assert describe(reading.about) == "vLLM 0.32.0, with tiny, 2,048 tokens of context"


async def test_a_replica_that_the_gateway_cannot_use_is_down_with_the_reason_while_its_page_answers() -> None:
    misfit = "it serves 'tiny' and not 'chat': correct the pool's model name"
    reading = await observed(ready(**{**VLLM, "state": "down", "misfit": misfit}))
    assert (reading.state, reading.error) == ("down", misfit)


async def test_a_replica_that_only_the_gateway_does_not_reach_is_down_and_says_so() -> None:
    reading = await observed(ready(state="down", reason="no connection"))
    assert (reading.state, reading.error) == ("down", "the gateway does not reach it (no connection), the worker does")


async def test_a_triton_that_only_the_gateway_does_not_reach_is_down_and_says_so() -> None:
    async def own(session: object) -> Reading:
        return Reading("up")

    async with server(ready(state="down")) as url:
        probe = probes.triton_replica(own, probes.GatewayReports(url, "", 2), "near", "r0")
        [seen] = await look([Target("near/r0", "replica", probe)], 5)
    assert (seen.reading.state, seen.reading.error) == ("down", "the gateway does not reach it, the worker does")


@pytest.mark.parametrize("page", [(404, "no such page"), (200, "{}")])
async def test_a_metrics_page_that_cannot_be_read_takes_the_figures_alone(page: tuple[int, str]) -> None:
    reading = await observed({**ready(**VLLM), "/metrics": page})
    assert (reading.state, reading.error, set(reading.figures)) == ("up", "", {"answer_ms"})


async def test_without_the_gateway_a_page_that_answers_says_that_the_server_is_up() -> None:
    gateway = f"http://127.0.0.1:{free_port()}"
    assert (await observed(ready(), gateway=gateway)).state == "up"
    nothing = await observed(ready(), metrics="", gateway=gateway)
    assert (nothing.state, nothing.error[:33]) == ("degraded", "the gateway says nothing of it: i")


@pytest.mark.parametrize("text", ["", "[]", '{"pools": 3}', '{"pools": {"near": {"servers": {"r0": {}}}}}'])
def test_a_page_that_is_no_gateways_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not understood"):
        reports(text)


def test_a_gateway_of_the_version_before_says_nothing_of_replicas() -> None:
    assert reports('{"pools": {"near": {"ready": 1, "replicas": 2}}}') == {}


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({}, ""),
        ({"kind": "sglang"}, "SGLang"),
        ({"kind": "triton", "version": "2.51", "signature": "trtllm_bls"}, "Triton 2.51, TensorRT-LLM BLS"),
        ({"kind": "newcomer", "models": ["a", "b", "c", "d"]}, "newcomer, with a, b, c and 1 more"),
    ],
)
def test_a_server_is_described_by_what_is_known_of_it(about: dict[str, Any], words: str) -> None:
    assert describe(about) == words
