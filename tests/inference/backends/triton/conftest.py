"""A Triton with stand-ins for published models, for the tests of its adapter."""

from collections.abc import AsyncIterator

import pytest

from deploy.local.process import Managed
from deploy.local.triton import Triton
from inference.wires.grpc import Channel
from tests.support.servers.triton import triton_of_standins
from tests.support.servers.triton_calls import Connect, Served
from tests.support.start import Start

MODELS = (
    "vllm_model",
    "ensemble",
    "tensorrt_llm",
    "tensorrt_llm_bls",
    "bls_accumulating",
    "llmapi",
    "llmapi_decoupled",
    "llmapi_deltas",
    "mapped",
    "embedder",
    "ids",
    "foreign",
)


@pytest.fixture(scope="session")
def started_standins(start_once: Start, tmp_path_factory: pytest.TempPathFactory) -> tuple[Triton, Managed]:
    server = triton_of_standins(tmp_path_factory.mktemp("standins"), *MODELS)
    return server, start_once(server.command)


@pytest.fixture
def standins(started_standins: tuple[Triton, Managed]) -> Triton:
    """Started again where a test has ended it. Triton 2.51 can crash where a stream is cancelled and another begins at once
    (SIGSEGV in ModelStreamInferHandler::Process; mended after it by triton-inference-server/server#7840 and #8078), so a test
    waits until the model has seen a cancellation before it asks again.
    """
    server, process = started_standins
    if not process.alive:
        process.start().wait_ready()
    return server


@pytest.fixture
async def connect(standins: Triton) -> AsyncIterator[Connect]:
    """`connect("ensemble")` is that model, through the signature `auto` unless another is given."""
    channel = Channel(standins.grpc, 10)
    yield lambda name, **pool: Served(channel, standins.grpc, name, **pool)
    channel.close()
