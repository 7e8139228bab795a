"""Tool calls of the official client with models on a real Triton, and what becomes of them in the ledger."""

import json
from pathlib import Path
from typing import Any

import pytest

from deploy.local.triton import Triton
from inference.contract.snapshot import Endpoint, Model, Pool, Route, Snapshot, Tenant, Tier, key_digest
from tests.support.gateway.process import KEY, Gateway, Receiver, StartGateway
from tests.support.tokenizers import write_folder

TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"The {name} of a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
    for name in ("weather", "time")
]
ARGUMENTS = {"city": "Oslo"}


@pytest.fixture
def fronted(start_gateway: StartGateway, standins: Triton, receiver: Receiver, tmp_path: Path) -> Gateway:
    """A gateway with the vLLM backend and the ensemble, by their names."""
    write_folder(tmp_path / "tokenizers" / "own", "chatml")
    names = ("vllm_model", "ensemble")
    snapshot = Snapshot(
        1,
        tuple(Model(name, (Route(f"{name}-pool"),), tokenizer="own", tool_parser="hermes") for name in names),
        tuple(
            Pool(f"{name}-pool", name, "local", name, "", (Endpoint("r0", standins.grpc),), signature="auto")
            for name in names
        ),
        (Tier("standard"),),
        (Tenant("alice", "standard", (key_digest(KEY),)),),
    )
    return start_gateway(snapshot, otlp=receiver.url, tokenizers_dir=str(tmp_path / "tokenizers"))


def say(text: str) -> list[Any]:
    return [{"role": "user", "content": f"say: {text}"}]


async def streamed(client: Any, **parameters: Any) -> tuple[str, list[list[str]], str]:
    """Text, name and arguments of each call, and the finish reason of a streamed answer."""
    text, calls, reason = "", list[list[str]](), ""
    async for chunk in await client.chat.completions.create(tools=TOOLS, stream=True, **parameters):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            reason = choice.finish_reason or reason
            for call in choice.delta.tool_calls or ():
                if call.index == len(calls):
                    assert call.id and call.type == "function"
                    calls.append([call.function.name, ""])
                calls[call.index][1] += call.function.arguments or ""
    return text, calls, reason


@pytest.mark.parametrize("model", ["vllm_model", "ensemble"])
async def test_calls_that_are_forced_and_calls_of_the_models_own_will(
    fronted: Gateway, receiver: Receiver, model: str
) -> None:
    by_name = {"type": "function", "function": {"name": "time"}}
    async with fronted.client() as client:
        raw = await client.chat.completions.with_raw_response.create(
            model=model,
            messages=say("!guided"),
            tools=TOOLS,
            tool_choice=by_name,  # type: ignore[arg-type]
        )
        required = await streamed(client, model=model, messages=say("!guided"), tool_choice="required")
        free = await client.chat.completions.create(
            model=model, messages=say("!call=weather Let me look."), tools=TOOLS
        )
        free_streamed = await streamed(client, model=model, messages=say("!call=weather Let me look."))
        none = await client.chat.completions.create(model=model, messages=say("one two"), tools=TOOLS)
    [forced] = raw.parse().choices
    [call] = forced.message.tool_calls or []
    assert (call.type, call.function.name, json.loads(call.function.arguments)) == ("function", "time", ARGUMENTS)
    assert not forced.message.content
    text, [(name, arguments)], reason = required
    assert (text, name, json.loads(arguments), reason) == ("", "weather", ARGUMENTS, "tool_calls")
    [choice] = free.choices
    [call] = choice.message.tool_calls or []
    assert (call.function.name, json.loads(call.function.arguments)) == ("weather", ARGUMENTS)
    assert (choice.message.content, choice.finish_reason) == ("Let me look.", "tool_calls")
    text, [(name, arguments)], reason = free_streamed
    assert (text, name, json.loads(arguments), reason) == ("Let me look.", "weather", ARGUMENTS, "tool_calls")
    assert (none.choices[0].message.content, none.choices[0].finish_reason) == ("one two", "stop")
    assert not none.choices[0].message.tool_calls

    spans = await receiver.trace(raw.headers["x-request-id"], spans=4)
    (root,) = [span for span in spans if "weir.request" in span.attributes]
    (attempt,) = [span for span in spans if span.name == "model.infer"]
    assert root.attributes["gen_ai.request.model"] == model
    for span in (root, attempt):
        assert (span.attributes["weir.pool"], span.attributes["weir.replica"]) == (f"{model}-pool", "r0")
