"""A request that has ended leaves no circle of references: what only a collection finds is paid for by all requests at once."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import grpc
import openai
import pytest

from inference.backends.openai import OpenAIConnector
from inference.contract.snapshot import CacheRule, Endpoint, Pool
from tests.support.gateway.scripted import a_snapshot, serve_pools
from tests.support.gateway.triton_double import StartDouble
from tests.support.servers.calls import StartServer
from tests.support.servers.standins import MODEL


@contextmanager
def kept_for_the_collector() -> Iterator[list[str]]:
    """The types of the gateway's objects in circles that came up meanwhile."""
    types: list[str] = []
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield types
        gc.collect()
        modules = ("inference.request.", "inference.core.", "inference.backends.")
        types += sorted({type(each).__qualname__ for each in gc.garbage if type(each).__module__.startswith(modules)})
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("protocol", ["triton", "openai"])
@pytest.mark.parametrize("fails", [False, True], ids=["answered", "failed"])
async def test_what_has_ended_is_freed_at_once(
    start_double: StartDouble,
    start_server: StartServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    protocol: str,
    stream: bool,
    fails: bool,
) -> None:
    if protocol == "triton":
        double = await start_double()
        double.error = grpc.StatusCode.INTERNAL if fails else None
        endpoint, model = Endpoint("r0", double.address), "chat_small"
    else:
        server = await start_server("vllm")
        server.fault = "500" if fails else ""
        endpoint, model = Endpoint("r0", url=server.url), MODEL
    pool = Pool("p", "v", "local", model, "", (endpoint,), protocol=protocol)
    asked = {"model": "m", "max_tokens": 4, "messages": [{"role": "user", "content": "Hello"}]}
    snapshot = a_snapshot(pool, cache=CacheRule("never"))
    async with serve_pools(OpenAIConnector, snapshot, tmp_path, monkeypatch) as client:

        async def ask() -> None:
            with pytest.raises(openai.APIStatusError) if fails else nullcontext():
                answer = await client.chat.completions.create(**asked, stream=stream)
                if stream:
                    assert [chunk async for chunk in answer]

        await ask()  # connects, and looks at the server
        with kept_for_the_collector() as types:
            for _ in range(3):
                await ask()
        assert not types, types
