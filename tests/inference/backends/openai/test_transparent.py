"""What is sent straight to a server and what is sent through the gateway is the same, and so are the answers."""

import asyncio

from tests.bench.transparent import in_front_of
from tests.support.gateway.process import KEY, Serve
from tests.support.transparent.compare import compare
from tests.support.transparent.standin import Recorder


async def test_requests_and_answers_are_handed_on(serve: Serve) -> None:
    """`make bench ONLY=transparent` compares two thousand."""
    direct, behind = await Recorder().start(), await Recorder().start()
    try:
        gateway = await asyncio.to_thread(serve, in_front_of(behind.url, KEY))
        found = await compare(direct, behind, gateway.base_url, KEY, seed=3, number=150)
    finally:
        await direct.stop()
        await behind.stop()
    assert (found.requests, found.answers) == ([], [])
