"""One round over components that are dead, slow, or talk nonsense: each gets its verdict, and none delays another."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from controlplane.fleet.observe import probes
from controlplane.fleet.observe.core import triton
from controlplane.fleet.observe.core.reading import Reading
from controlplane.fleet.observe.core.ready import Count, Names
from controlplane.fleet.observe.round import Seen, Target, look
from deploy.local.ports import free_port
from deploy.local.process import Managed
from deploy.local.redis import Redis
from tests.support.http_server import serving

NAMES = Names((Count("requests", "app_requests_total"),))


@asynccontextmanager
async def server(metrics: str, status: int = 200) -> AsyncIterator[str]:
    async def ready(_: web.Request) -> web.Response:
        return web.json_response({"ready": status == 200}, status=status)

    async def page(request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != "Bearer let-me-see":
            return web.Response(status=401)
        return web.Response(text=metrics)

    async with serving(web.get("/readyz", ready), web.get("/metrics", page)) as url:
        yield url


async def one(probe: probes.Probe, timeout_s: float = 5) -> Reading:
    (seen,) = await look([Target("it", "gateway", probe)], timeout_s)
    return seen.reading


async def test_a_process_is_read_with_its_token() -> None:
    async with server("# TYPE app_requests_total counter\napp_requests_total 4\n") as url:
        reading = await one(probes.process(url, "let-me-see", NAMES))
    assert reading.counters == {"requests": 4}
    assert reading.figures["answer_ms"] > 0


async def test_a_port_where_nobody_listens_is_down_and_named() -> None:
    port = free_port()
    reading = await one(probes.process(f"http://127.0.0.1:{port}", "", NAMES))
    assert reading.state == "down"
    assert reading.error == f"no connection to 127.0.0.1:{port}: Connection refused"
    assert reading.figures == {}


async def test_a_dead_replica_is_down() -> None:
    assert (await one(probes.triton_server(f"127.0.0.1:{free_port()}", "", "chat"))).state == "down"


async def test_a_redis_that_died_is_down(own_redis: tuple[Redis, Managed]) -> None:
    redis, process = own_redis
    probe = probes.redis(redis.url)
    assert (await one(probe)).state == "up"
    process.kill()
    assert (await one(probe)).state == "down"


async def test_a_page_that_is_no_metrics_is_degraded() -> None:
    async with server("<html>a proxy's error page</html>") as url:
        reading = await one(probes.process(url, "let-me-see", NAMES))
    assert reading.state == "degraded"
    assert "not understood" in reading.error


async def test_an_endless_answer_is_cut_off() -> None:
    async with server("#" * (probes.MAX_ANSWER_BYTES + 1)) as url:
        reading = await one(probes.process(url, "let-me-see", NAMES))
    assert "more than 4 MiB" in reading.error


async def test_one_that_never_answers_is_down_and_the_others_are_seen() -> None:
    never = asyncio.Event()

    async def silent(_: aiohttp.ClientSession) -> Reading:
        await never.wait()
        raise AssertionError

    async def well(_: aiohttp.ClientSession) -> Reading:
        return Reading("up")

    seen = await look([Target("silent", "replica", silent), Target("well", "replica", well)], 0.05)
    assert {item.component: item.reading.state for item in seen} == {"silent": "down", "well": "up"}
    assert "no answer within 0.05 s" in seen[0].reading.error


@pytest.mark.parametrize("answer", ['{"model_stats": [{"name": "chat", "inference_stats": []}]}', "[" * 100_000])
async def test_one_whose_answer_has_another_shape_is_degraded_and_the_others_are_seen(answer: str) -> None:
    async def odd(_: aiohttp.ClientSession) -> Reading:
        return triton.reading(200, answer, "", "chat")

    async def well(_: aiohttp.ClientSession) -> Reading:
        return Reading("up")

    seen = await look([Target("odd", "replica", odd), Target("well", "replica", well)], 5)
    assert {item.component: item.reading.state for item in seen} == {"odd": "degraded", "well": "up"}
    assert "not understood" in seen[0].reading.error


async def test_a_figure_that_is_no_number_is_not_known() -> None:
    page = (
        'nv_gpu_memory_used_bytes NaN\nnv_gpu_memory_total_bytes 8\nnv_inference_request_failure{model="chat"} +Inf\n'
    )
    stats = '{"model_stats": [{"name": "chat", "inference_stats": {"success": {"count": 3, "ns": 1}}}]}'

    async def probe(_: aiohttp.ClientSession) -> Reading:
        return triton.reading(200, stats, page, "chat")

    reading = await one(probe)
    assert reading.figures.keys() == {"gpu_memory_total_bytes", "answer_ms"}
    assert reading.counters.keys() == {"requests", "queue_ns", "compute_ns"}


async def test_nobody_to_ask_is_nothing_seen() -> None:
    assert await look([], 1) == list[Seen]()
