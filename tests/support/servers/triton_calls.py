"""Calls models through the Triton adapter, without a gateway around it."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from inference.backends.port import CallInfo, Event, Stream, Usage
from inference.backends.triton.model import TritonModel
from inference.contract.snapshot import Endpoint, Pool
from inference.contract.tensor_mapping import InputTensor, OutputTensor, TensorMapping
from inference.core.question import Question
from inference.wires.grpc import Channel

PATIENCE_S = 120.0
MAPPING = TensorMapping(
    (
        InputTensor("QUESTION", "BYTES", "prompt"),
        InputTensor("LIMIT", "INT64", "max_tokens"),
        InputTensor("HEAT", "FP32", "temperature"),
        InputTensor("ENDS", "BYTES", "stop"),
        InputTensor("MODE", "INT32", "constant", constant="40"),
    ),
    (OutputTensor("ANSWER", "BYTES", "text_so_far"), OutputTensor("COUNT", "INT32", "output_tokens")),
)
"""Of the stand-in `mapped`."""
EMBEDDING = TensorMapping((InputTensor("TEXT", "BYTES", "prompt"),), (OutputTensor("VECTOR", "FP32", "embedding"),))
"""Of the stand-in `embedder`."""
IDS = TensorMapping(
    (
        InputTensor("input_ids", "INT32", "prompt_ids"),
        InputTensor("input_lengths", "INT32", "prompt_tokens"),
        InputTensor("request_output_len", "INT32", "max_tokens"),
    ),
    (OutputTensor("output_ids", "INT32", "token_ids"),),
)
"""Of the stand-in `ids`, whose tensors have the names of TensorRT-LLM's own model."""
TRACEPARENT = b"00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"


class Whole(NamedTuple):
    """An answer: the texts and finish reasons of its choices, and what was counted."""

    texts: list[str]
    reasons: list[str]
    usage: Usage
    events: list[Event]


class Served:
    """A model of a pool."""

    def __init__(self, channel: Channel, address: str, name: str, **pool: Any) -> None:
        given = {"signature": "auto", "model_version": "", **pool}
        endpoints = (Endpoint("one", grpc=address),)
        self.backend = TritonModel(
            channel, Pool(name="p", variant="v", region="r", model_name=name, endpoints=endpoints, **given)
        )

    async def start(self, prompt: str, *, max_tokens: int = 64, **question: Any) -> Stream:
        loop = asyncio.get_running_loop()
        wanted = Question(operation=question.pop("operation", "text_completion"), prompt=(prompt,), **question)
        call = CallInfo(-1, max_tokens, 2, TRACEPARENT, "r", loop.time() + PATIENCE_S, prompt)
        return await self.backend.generate(wanted, call)

    async def answer(self, prompt: str, **question: Any) -> Whole:
        async with asyncio.timeout(PATIENCE_S):
            stream = await self.start(prompt, **question)
            return await read(stream, question.get("n", 1))

    async def tensors(self, **question: Any) -> dict[str, list[Any]]:
        """What the model received: type, shape and elements of each tensor."""
        whole = await self.answer("!tensors", **question)
        return decoded(whole.texts[0])


def decoded(text: str) -> dict[str, list[Any]]:
    """What a model answers to `!tensors`."""
    tensors: dict[str, list[Any]] = json.loads(bytes.fromhex(text))
    return tensors


Connect = Callable[..., Served]


async def read(stream: Stream, choices: int = 1) -> Whole:
    texts, reasons, events = [""] * choices, [""] * choices, []
    usage: Usage | None = None
    while batch := await stream.next():
        for event in batch:
            assert not reasons[event.choice], "text after the end of a choice"
            texts[event.choice] += event.text
            reasons[event.choice] = event.finish_reason
            events.append(event)
            if event.usage is not None:
                assert usage is None
                usage = event.usage
    assert usage is not None, "no usage"
    return Whole(texts, reasons, usage, events)
