"""What becomes of requests at vLLM: those whose client leaves, and the spans of all."""

import asyncio
import time
import urllib.request
from collections.abc import Callable

import openai
import pytest

from deploy.local.ports import LOOPBACK
from inference.contract.server_metrics import ServerLoad, read_load
from tests.support.gateway.process import Gateway, Receiver
from tests.support.gateway.sockets import send
from tests.support.servers.vllm import ADAPTER, CONTEXT_TOKENS, MODEL, POOL, REPLICA, Clients, VLlm
from tests.support.wait import eventually

pytestmark = pytest.mark.servers

SOON_S = 1.0
AT_ONCE = 8  # `--max-num-seqs`
LONG = {"max_tokens": 1_900, "ignore_eos": True}


def load(server: VLlm) -> ServerLoad:
    return read_load(page(server), time.monotonic())


def page(server: VLlm) -> bytes:
    with urllib.request.urlopen(f"http://{LOOPBACK}:{server.port}/metrics", timeout=120) as response:
        return bytes(response.read())


def running(server: VLlm, number: int, waiting: int = 0) -> Callable[[], bool]:
    def holds() -> bool:
        signals = load(server)
        return (signals.running, signals.waiting) == (number, waiting)

    return holds


@pytest.mark.parametrize("way", ["mid-stream", "whole", "queued"])
def test_a_client_that_leaves_stops_it(vllm_gateway: Gateway, vllm_server: VLlm, way: str) -> None:
    before = [send(vllm_gateway, MODEL, stream=True, **LONG) for _ in range(AT_ONCE if way == "queued" else 0)]
    eventually(running(vllm_server, len(before)))
    leaves = send(vllm_gateway, MODEL, stream=way != "whole", **LONG)
    if before:
        eventually(running(vllm_server, AT_ONCE, waiting=1))
    else:
        eventually(running(vllm_server, 1))
        assert way == "whole" or b"data: " in leaves.recv(65536)
    leaves.close()
    eventually(running(vllm_server, len(before)), within_s=SOON_S)
    for connection in before:
        connection.close()
    eventually(running(vllm_server, 0), within_s=SOON_S)
    eventually(vllm_gateway.idle, within_s=SOON_S)


async def test_its_spans_name_model_pool_and_replica(clients: Clients, receiver: Receiver) -> None:
    raw = await clients.through.chat.completions.with_raw_response.create(
        model=MODEL, messages=[{"role": "user", "content": "What is a weir?"}], max_tokens=5
    )
    usage = raw.parse().usage
    assert usage is not None
    spans = await receiver.trace(raw.headers["x-request-id"], spans=3)
    (root,) = [span for span in spans if "weir.request" in span.attributes]
    (attempt,) = [span for span in spans if span.name == "model.infer"]
    assert (root.attributes["weir.pool"], root.attributes["weir.replica"]) == (POOL, REPLICA)
    assert root.attributes["gen_ai.request.model"] == MODEL
    assert root.attributes["gen_ai.usage.input_tokens"] == usage.prompt_tokens
    assert root.attributes["gen_ai.usage.output_tokens"] == usage.completion_tokens == 5
    assert (attempt.attributes["weir.pool"], attempt.attributes["weir.replica"]) == (POOL, REPLICA)
    assert not attempt.raw.events, "of an answer that comes whole nobody knows when its first token was there"


async def test_an_adapter_is_a_model_of_its_own(clients: Clients, vllm_gateway: Gateway, vllm_server: VLlm) -> None:
    asked = {"messages": [{"role": "user", "content": "What is a weir?"}], "max_tokens": 5, "temperature": 0}
    direct = await clients.direct.chat.completions.create(model=ADAPTER, **asked)  # type: ignore[call-overload]
    through = await clients.through.chat.completions.create(model=ADAPTER, **asked)  # type: ignore[call-overload]
    assert (through.model, through.choices[0].message.content) == (ADAPTER, direct.choices[0].message.content)
    assert through.usage.prompt_tokens == direct.usage.prompt_tokens
    assert f'running_lora_adapters="{ADAPTER}"'.encode() in page(vllm_server)
    [replica] = vllm_gateway.ready()["pools"][f"{POOL}-tuned"]["servers"].values()
    assert (replica["models"], replica["context_length"]) == ([MODEL, ADAPTER], CONTEXT_TOKENS)


async def test_mistakes_do_not_count_against_it(clients: Clients, vllm_gateway: Gateway) -> None:
    for _ in range(10):
        with pytest.raises(openai.NotFoundError):
            await clients.through.embeddings.create(model=MODEL, input="a")
        with pytest.raises(openai.BadRequestError):
            await clients.through.completions.create(model=MODEL, prompt="a", temperature=-1)
    ejected = await asyncio.to_thread(vllm_gateway.metric, "weir_gateway_replica_ejected", pool=POOL, replica=REPLICA)
    assert not ejected
