from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from openai import AsyncOpenAI

from deploy.local.ports import free_port
from inference.contract.snapshot import CacheRule, Endpoint, Model, Pool, Route, Snapshot, Tenant, Tier, key_digest
from tests.support.gateway.process import KEY, Gateway, Receiver, gateway_command
from tests.support.servers.vllm import ADAPTER, MODEL, POOL, REPLICA, Clients, VLlm, vllm, write_model
from tests.support.start import Start
from tests.support.transparent.alike import Ends
from tests.support.transparent.compare import End


@pytest.fixture(scope="session")
def vllm_server(start_once: Start, tmp_path_factory: pytest.TempPathFactory) -> VLlm:
    """The session's vLLM, which takes about a minute to start."""
    server = vllm(free_port(), write_model(tmp_path_factory.mktemp("model") / MODEL))
    start_once(server.command)
    return server


@pytest.fixture(scope="session")
def vllm_gateway(
    start_once: Start, vllm_server: VLlm, receiver: Receiver, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """A gateway in front of it, without a cache."""
    endpoint = Endpoint(REPLICA, url=vllm_server.url)
    pool = Pool(POOL, "tiny-variant", "local", MODEL, "", (endpoint,), protocol="openai")
    tuned = Pool(f"{POOL}-tuned", "tuned-variant", "local", ADAPTER, "", (endpoint,), protocol="openai")
    models = tuple(
        Model(
            name,
            (Route(route),),
            tokenizer="server",
            cache=CacheRule("never"),
            max_output_tokens=1 << 20,
            reasoning_field="reasoning",
        )
        for name, route in ((MODEL, POOL), (ADAPTER, tuned.name))
    )
    tenant = Tenant("alice", "standard", (key_digest(KEY),))
    snapshot = Snapshot(1, models, (pool, tuned), (Tier("standard"),), (tenant,))
    command, port, path = gateway_command(
        tmp_path_factory.mktemp("gateway"), snapshot, otlp=receiver.url, probe_timeout_ms="5000"
    )
    process = start_once(command)
    yield Gateway(port, path, process, Path(str(process.log)))


@pytest.fixture
async def clients(vllm_server: VLlm, vllm_gateway: Gateway) -> AsyncIterator[Clients]:
    direct = AsyncOpenAI(base_url=vllm_server.url, api_key="none", max_retries=0)
    through = vllm_gateway.client()
    yield Clients(direct, through)
    await direct.close()
    await through.close()


@pytest.fixture
async def ends(vllm_server: VLlm, vllm_gateway: Gateway) -> AsyncIterator[Ends]:
    those = Ends(End(vllm_server.url, "none"), End(vllm_gateway.base_url, KEY))
    yield those
    for end in those:
        await end.close()
