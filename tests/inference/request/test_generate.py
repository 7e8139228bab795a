"""An inference ends a model that misbehaves."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from inference.backends.triton import Chunk
from inference.core.openai.errors import ApiError
from inference.core.snapshot import StageTimeouts
from inference.request import generate
from inference.request.coalesce import Flight


class Endless:
    """A model whose answer never ends."""

    def __init__(self) -> None:
        self.cancelled = self.waiting = False

    async def infer(self, *_: object) -> "Endless":
        return self

    async def next(self) -> Chunk:
        return Chunk("x" * (1 << 20), "")

    def cancel(self) -> None:
        self.cancelled = True


async def test_an_answer_without_end_is_ended() -> None:
    model, flight = Endless(), Flight(None, (b"", b""), 1)
    replica: Any = SimpleNamespace(name="r0", pool="p", served=0, model=model)
    work: Any = SimpleNamespace(trace_id=b"\1" * 16, flags=b"01", timeouts=StageTimeouts(), question=None, priority=1)
    with pytest.raises(ApiError, match="model_error") as caught:
        async with asyncio.timeout(20):
            await generate._attempt(work, flight, replica, 1)
    assert caught.value.detail == "its answer is longer than 4194304 characters"
    assert "longer" not in caught.value.body().decode()
    assert model.cancelled
