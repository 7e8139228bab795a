"""Answers of models with the published tensors, on a real Triton: text, ends, counts, choices, stop words."""

import asyncio

import pytest

from deploy.local.triton import Triton
from inference.core.backend_errors import FailedError, InvalidError
from tests.support.servers.triton import requests_of, wait_for_more
from tests.support.servers.triton_calls import PATIENCE_S, Connect

ALL = ("vllm_model", "ensemble", "tensorrt_llm_bls", "bls_accumulating", "llmapi", "llmapi_decoupled", "llmapi_deltas")
STREAMING = tuple(name for name in ALL if name != "llmapi")
COUNTING = ("vllm_model", "ensemble", "tensorrt_llm_bls", "bls_accumulating")


@pytest.mark.parametrize("name", ALL)
async def test_an_answer_is_whole_and_ends_with_its_reason(connect: Connect, name: str) -> None:
    whole = await connect(name).answer("say: ha ha ha, naïve 😀 end")
    assert (whole.texts, whole.reasons) == (["ha ha ha, naïve 😀 end"], ["stop"])


@pytest.mark.parametrize("name", STREAMING)
async def test_text_comes_token_by_token(connect: Connect, name: str) -> None:
    whole = await connect(name).answer("say: one two three four")
    assert [event.text for event in whole.events if event.text] == ["one", " two", " three", " four"]


@pytest.mark.parametrize("name", ALL)
async def test_an_answer_at_its_limit_says_so(connect: Connect, name: str) -> None:
    whole = await connect(name).answer("say: one two three four", max_tokens=2)
    assert (whole.texts, whole.reasons) == (["one two"], ["length"])


@pytest.mark.parametrize("name", COUNTING)
async def test_the_servers_counts_are_summed(connect: Connect, name: str) -> None:
    """Each response has its own count of output tokens, and repeats that of the prompt."""
    whole = await connect(name).answer("say: one two three four")
    assert whole.usage[:2] == (5, 4)
    assert sum(event.tokens for event in whole.events) == 4


@pytest.mark.parametrize("name", ["llmapi_decoupled", "llmapi_deltas"])
async def test_without_counts_responses_are_counted(connect: Connect, name: str) -> None:
    whole = await connect(name).answer("say: one two three four")
    assert whole.usage[:2] == (-1, 4)


@pytest.mark.parametrize("name", ALL)
async def test_a_stop_word_ends_the_answer_before_it(connect: Connect, name: str) -> None:
    """Some servers leave the word in the text."""
    whole = await connect(name).answer("say: one two three four five", stop=("hree fo", "five"))
    assert (whole.texts, whole.reasons) == (["one two t"], ["stop"])


@pytest.mark.parametrize("name", ALL)
async def test_several_choices_come_with_the_usage_of_all(connect: Connect, name: str) -> None:
    whole = await connect(name).answer("say: one two three", n=3, temperature=0.5, seed=7)
    assert whole.reasons == ["stop"] * 3
    assert len(whole.texts) == 3
    assert all(text.startswith("one") for text in whole.texts)
    if name in COUNTING:
        assert whole.usage[:2] == (4, 9)


@pytest.mark.parametrize("name", STREAMING)
async def test_a_failure_after_some_text_is_one(connect: Connect, name: str) -> None:
    stream = await connect(name).start("!fail=2 say: one two three")
    with pytest.raises(FailedError) as caught:
        async with asyncio.timeout(PATIENCE_S):
            while await stream.next():
                pass
    assert "failed" in caught.value.message
    assert "Traceback" not in caught.value.message
    assert "\n" not in caught.value.message
    assert "N/A" not in caught.value.message


@pytest.mark.parametrize("name", ["vllm_model", "ensemble"])
async def test_a_prompt_that_is_too_long_is_the_clients_fault(connect: Connect, name: str) -> None:
    stream = await connect(name).start("word " * 1200)
    with pytest.raises(InvalidError) as caught:
        await stream.next()
    assert caught.value.code == "context_length_exceeded"


async def test_a_sampling_parameter_that_vllm_does_not_take_is_the_clients_fault(connect: Connect) -> None:
    stream = await connect("vllm_model").start("say: one", top_p=3.0)
    with pytest.raises(InvalidError, match="sampling parameters"):
        await stream.next()


@pytest.mark.parametrize("name", ["vllm_model", "tensorrt_llm", "llmapi_decoupled"])
async def test_cancelling_reaches_the_model(connect: Connect, standins: Triton, name: str) -> None:
    """Triton 2.51 does not pass it on to the steps of an ensemble, so here is the step alone."""
    before = requests_of(standins, name, "cancelled")
    stream = await connect(name).start("!wait say: one two three")
    async with asyncio.timeout(PATIENCE_S):
        assert await stream.next()
        stream.cancel()
        await wait_for_more(standins, name, "cancelled", before)


async def test_cancelling_several_choices_reaches_each(connect: Connect, standins: Triton) -> None:
    before = requests_of(standins, "vllm_model", "cancelled")
    stream = await connect("vllm_model").start("!wait say: one two", n=2)
    async with asyncio.timeout(PATIENCE_S):
        begun = set[int]()
        while len(begun) < 2:
            begun |= {event.choice for event in await stream.next()}
        stream.cancel()
        await wait_for_more(standins, "vllm_model", "cancelled", before, 2)
