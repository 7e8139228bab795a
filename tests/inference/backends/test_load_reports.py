"""What a gateway knows of a replica's load from its server's metrics page, over HTTP."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest

from inference.backends.fleet import PoolState
from inference.backends.metrics_page import MAX_PAGE, MetricsPages
from inference.backends.replica import Replica
from inference.contract.snapshot import Endpoint, Pool
from inference.core.backend_errors import FailedError
from inference.core.routing.balance import Balancer, Call
from inference.core.routing.need import ANYTHING
from tests.support.gateway.scripted import DONE, ScriptedBackend
from tests.support.servers.calls import Connect
from tests.support.servers.metrics_page import MetricsPage
from tests.support.wait import eventually_async

BUSY = 'vllm:num_requests_waiting{engine="0"} 3.0\nvllm:num_requests_running{engine="0"} 8.0\n'
FREE = "vllm:num_requests_waiting 0\nvllm:num_requests_running 1\n"
TOO_LARGE = BUSY + "#" * MAX_PAGE
INTERVAL_S = 0.01
Follow = Callable[[], Replica]


@pytest.fixture
async def follow(page: MetricsPage) -> AsyncIterator[Follow]:
    """A replica whose server's page is read."""
    pages, running = MetricsPages(), list[Replica]()

    def begin() -> Replica:
        read = partial(pages.signals, page.url)
        running.append(Replica("p", "r0", ScriptedBackend((DONE,)), 0, read))
        running[-1].start(60, 0.2, INTERVAL_S)
        return running[-1]

    yield begin
    for replica in running:
        replica.stop()
    pages.close()


def others(replica: Replica, since_s: float = 0) -> tuple[float | None, float | None]:
    """Requests of others at the replica, and those of them that wait, if it has reported since then."""
    return replica.load.others(since_s), replica.load.others_waiting(since_s)


async def test_what_the_page_says_is_known_and_replaced_by_what_it_says_next(page: MetricsPage, follow: Follow) -> None:
    page.body = BUSY
    replica = follow()
    await eventually_async(lambda: others(replica) == (11, 3))
    page.body = FREE
    await eventually_async(lambda: others(replica) == (1, 0))


async def test_requests_of_this_gateway_are_not_counted_twice(page: MetricsPage, follow: Follow) -> None:
    page.body = BUSY
    replica = follow()
    replica.load.own, replica.load.pending = 5, 2
    await eventually_async(lambda: others(replica) == (6, 1))


async def test_a_pool_whose_server_has_requests_waiting_has_no_room(page: MetricsPage, follow: Follow) -> None:
    pool = PoolState(Pool("p", "v", "local", "m", "1", (Endpoint("r0", "127.0.0.1:1"),)), 60.0, lambda _: None)
    pool.replicas.append(follow())
    assert pool.room(3) == pool.pool.max_concurrency, "nothing is known, so the gateway's own count decides"
    page.body = BUSY
    await eventually_async(lambda: pool.room(3) == -3)
    page.body = FREE
    await eventually_async(lambda: pool.room(3) == pool.pool.max_concurrency)


@pytest.mark.parametrize("streams", [True, False])
async def test_a_page_that_stands_still_while_answers_begin_is_as_old_as_its_first_reading(
    page: MetricsPage, follow: Follow, streams: bool
) -> None:
    page.body = FREE
    replica = follow()
    await eventually_async(lambda: others(replica) == (1, 0))
    now_s, answered = asyncio.get_running_loop().time(), page.reads
    call = Call(Balancer(60.0), replica, ANYTHING, now_s)
    if streams:
        call.first_token(now_s + 10)
    call.ended(now_s + 10, 0 if streams else 5)
    await eventually_async(lambda: page.reads > answered + 3)
    since_s = asyncio.get_running_loop().time()
    await eventually_async(lambda: page.reads > answered + 6)
    assert others(replica, since_s) == (None, None), "nothing is known since then"
    page.body = BUSY
    await eventually_async(lambda: others(replica, since_s) == (11, 3))


@pytest.mark.parametrize("after", ["gone", "404", "silent", "garbage", "too large"])
async def test_a_page_that_says_nothing_any_more_leaves_the_load_unknown_and_not_zero(
    page: MetricsPage, follow: Follow, after: str
) -> None:
    page.body = BUSY
    replica = follow()
    await eventually_async(lambda: others(replica) == (11, 3))
    match after:
        case "gone":
            await page.stop()
        case "404":
            page.status = 404
        case "silent":
            page.gate.clear()
        case "garbage":
            page.body = "vllm:num_requests_waiting NaN\nvllm:num_requests_running{ eight\n\0\xff <html>\n"
        case _:
            page.body = TOO_LARGE
    loop = asyncio.get_running_loop()
    reports = [replica.load.signals]

    async def no_more_reports() -> bool:
        """Since several intervals."""
        reports.append(replica.load.signals)
        await asyncio.sleep(5 * INTERVAL_S)
        return replica.load.signals is reports[-1]

    await eventually_async(no_more_reports)
    assert others(replica, loop.time() - 4 * INTERVAL_S) == (None, None)
    assert replica.load.signals is not None
    assert replica.load.signals.waiting == 3, "the last report stays what it was"
    page.status, page.body = 200, FREE
    page.gate.set()
    if after != "gone":
        await eventually_async(lambda: others(replica) == (1, 0))


async def test_a_server_whose_page_is_always_silent_is_read_seldom(page: MetricsPage, follow: Follow) -> None:
    page.body = "some_other_metric 4\n"
    replica = follow()
    await eventually_async(lambda: page.reads >= 4)
    assert others(replica) == (None, None)
    page.body = BUSY
    await eventually_async(lambda: others(replica) == (11, 3), "it is read again, though later and later")


async def test_an_openai_servers_page_is_not_read_beyond_the_same_size(page: MetricsPage, connect: Connect) -> None:
    model = connect(f"{page.url.removesuffix('/metrics')}/v1", server="vllm")
    page.body = BUSY
    assert (await model.signals(5)).running == 8
    page.body = TOO_LARGE
    with pytest.raises(FailedError, match="longer than"):
        await model.signals(5)
