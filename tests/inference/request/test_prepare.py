"""What a prompt needs before a model gets it, by what the model and its server have."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import openai
import pytest

from inference.backends.port import Query
from inference.contract.snapshot import Model
from inference.core.backend_errors import UnreachableError
from inference.core.capabilities import Capabilities
from inference.core.openai.errors import ApiError
from inference.core.passing.request import Passed, made
from inference.core.question import Message, Question
from inference.request.prepare import prepare
from inference.tokenizers.model_text import PlainText
from tests.support.gateway.process import LARGE, SMALL, Receiver, Serve, StartGateway, a_snapshot, with_model
from tests.support.gateway.triton_double import StartDouble
from tests.support.tokenizers import write_folder
from tests.support.wait import eventually

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


class Server:
    """A backend that counts prompts, or fails to."""

    def __init__(self, counted: int | Exception | None, needs_prompt: bool = False, **parameters: Any) -> None:
        self.needs_prompt, self.needs_ids = needs_prompt, False
        self.capabilities = Capabilities("stand-in", parameters)
        self.query: list[Query] = []
        self._counted = counted

    async def count(self, query: Query, timeout_s: float) -> int | None:
        self.query.append(query)
        if isinstance(self._counted, Exception):
            raise self._counted
        return self._counted


def pool_of(server: Server) -> Any:
    replica = SimpleNamespace(backend=server)
    return SimpleNamespace(replicas=[replica], capabilities=server.capabilities, choose=lambda need, tried: replica)


def chat(text: str, **fields: Any) -> Question:
    return Question(operation="chat", messages=(Message("user", text),), **fields)


async def prepared(question: Query, model: Model, server: Server) -> Any:
    return await prepare(question, model, PlainText(None), pool_of(server), 10_000)


def handed_on(text: str, **fields: Any) -> Passed:
    messages = [{"role": "user", "content": text}]
    return made("/v1/chat/completions", "chat", {"model": "m", "messages": messages, **fields})


async def test_the_server_counts_only_where_the_estimate_leaves_open_whether_it_is_too_long() -> None:
    model, server = Model("m", (), "server", max_prompt_tokens=1000), Server(777)
    short = await prepared(handed_on("word " * 10), model, server)
    assert (short.source, server.query) == ("estimate", [])
    long = await prepared(handed_on("word " * 500), model, server)
    assert (long.source, long.tokens, len(server.query)) == ("server", 777, 1)


@pytest.mark.parametrize("counted", [None, TimeoutError(), UnreachableError("away")])
async def test_without_the_servers_count_an_estimate_refuses_nothing_that_may_fit(counted: Any) -> None:
    model = Model("m", (), "server", max_prompt_tokens=1000)
    question = handed_on("word " * 1000)
    assert (await prepared(question, model, Server(counted))).source == "estimate"
    with pytest.raises(ApiError) as refused:
        await prepared(handed_on("word " * 10_000), model, Server(counted))
    assert refused.value.code == "context_length_exceeded"


async def test_a_prompt_that_the_server_counts_as_too_long_is_refused() -> None:
    with pytest.raises(ApiError, match="has 1001 tokens or more"):
        await prepared(handed_on("word " * 500), Model("m", (), "server", max_prompt_tokens=1000), Server(1001))


async def test_a_prompt_that_is_refused_for_its_length_has_model_and_length_in_its_span(
    start_double: StartDouble, serve: Serve, receiver: Receiver
) -> None:
    double = await start_double()
    snapshot = with_model(a_snapshot(double.address), SMALL, max_prompt_tokens=50)
    client = (await asyncio.to_thread(serve, snapshot)).client()
    for text in ("word " * 100, "w" * 500_000):
        with pytest.raises(openai.BadRequestError) as caught:
            await client.chat.completions.create(model=SMALL, messages=[{"role": "user", "content": text}])
        spans = await receiver.trace(caught.value.response.headers["x-request-id"])
        root = next(span for span in spans if span.attributes.get("weir.request")).attributes
        assert (root["weir.model"], root["weir.tokens.source"]) == (SMALL, "at_least")
        assert root["gen_ai.usage.input_tokens"] > 50


async def test_prompt_and_answer_have_to_fit_together() -> None:
    model = Model("m", (), "server", max_prompt_tokens=1000, max_context_tokens=1200)
    assert (await prepared(handed_on("word " * 500, max_tokens=200), model, Server(1000))).tokens == 1000
    with pytest.raises(ApiError, match="has 1000 tokens, and 201 are asked for; this model has room for 1200 together"):
        await prepared(handed_on("word " * 500, max_tokens=201), model, Server(1000))


async def test_the_server_gets_messages_without_control_tokens() -> None:
    given = await prepared(chat("a<|im_end|>"), Model("m", (), "estimate"), Server(None))
    assert given.question.messages[0].content == "a< |im_end|>"


@pytest.mark.parametrize("choice", ["", "auto"])
async def test_tools_need_a_parser_where_the_server_answers_plain_text(choice: str) -> None:
    question = chat("Look", tools=(TOOL,), tool_choice=choice)
    with pytest.raises(ApiError, match="tool parser") as refused:
        await prepared(question, Model("m", (), "estimate"), Server(None, needs_prompt=True))
    assert refused.value.param == "tools"
    assert (await prepared(question, Model("m", (), "estimate"), Server(None))).question.tools == (TOOL,)


async def test_a_forced_call_is_refused_where_the_server_cannot_be_guided() -> None:
    question = chat("Look", tools=(TOOL,), tool_choice="required")
    with pytest.raises(ApiError, match="`tool_choice` is not supported by the server of this model"):
        await prepared(question, Model("m", (), "estimate"), Server(None, needs_prompt=True))


async def test_a_prompt_is_made_by_the_models_own_template(
    start_double: StartDouble, start_gateway: StartGateway, receiver: Receiver, tmp_path: Path
) -> None:
    """And a model whose files are bad harms itself alone."""
    double = await start_double()
    write_folder(tmp_path / "tokenizers" / "own", "llama3", "{{ bos_token }}[{{ messages[0].content }}]<|eot_id|>")
    write_folder(tmp_path / "tokenizers" / "bad", "llama3", "{% for %}")
    snapshot = with_model(a_snapshot(double.address), SMALL, tokenizer="own")
    snapshot = with_model(snapshot, LARGE, tokenizer="bad")
    folder = str(tmp_path / "tokenizers")
    gateway = await asyncio.to_thread(start_gateway, snapshot, otlp=receiver.url, tokenizers_dir=folder)
    client = gateway.client()
    raw = await client.chat.completions.with_raw_response.create(
        model=SMALL,
        messages=[{"role": "user", "content": "Hi <|eot_id|>"}],
        extra_headers={"x-stainless-read-timeout": "60"},
    )
    assert double.prompts == ["[Hi < |eot_id|>]<|eot_id|>"]
    root = next(
        span for span in await receiver.trace(raw.headers["x-request-id"]) if span.attributes.get("weir.request")
    )
    assert root.attributes["weir.tokens.source"] == "exact"
    usage = raw.parse().usage
    assert usage is not None
    assert root.attributes["gen_ai.usage.input_tokens"] == usage.prompt_tokens > len("Hi")

    def look() -> None:
        body = json.dumps({"model": LARGE, "messages": [{"role": "user", "content": "Hi"}]}).encode()
        eventually(lambda: "chat template cannot be used" in str(gateway.ready()["policy_faults"]))
        status, _, text = gateway.ask("POST", "/v1/chat/completions", body)
        assert (status, msgspec.json.decode(text)["error"]["code"]) == (503, "model_misconfigured")
        (fault,) = gateway.ready()["policy_faults"]
        assert fault.startswith(f"model '{LARGE}': tokenizer 'bad': its chat template cannot be used: ")
        assert gateway.metric("weir_gateway_policy_fault", kind="model") == 1

    await asyncio.to_thread(look)
