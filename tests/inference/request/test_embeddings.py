"""/v1/embeddings, as the official client reads it."""

import struct
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway.scripted import ScriptedBackend, serve

VECTORS = tuple(struct.pack("<2f", *pair) for pair in ((0.5, -1.0), (0.1, 2.0)))


def script() -> ScriptedBackend:
    made = ScriptedBackend(())
    made.vectors = VECTORS
    return made


@pytest.mark.parametrize("form", ["float", "base64", None])
async def test_vectors_come_back_in_both_formats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: Any) -> None:
    server = script()
    options = {"encoding_format": form} if form else {}
    async with serve(server, tmp_path, monkeypatch) as client:
        answer = await client.embeddings.create(model="m", input=["a", "b\r\nc"], dimensions=2, **options)
    if form == "base64":
        vectors = [struct.unpack("<2f", b64decode(str(item.embedding))) for item in answer.data]
    else:
        vectors = [tuple(item.embedding) for item in answer.data]
    assert vectors == [pytest.approx(struct.unpack("<2f", vector)) for vector in VECTORS]
    assert (answer.usage.prompt_tokens, answer.usage.total_tokens) == (5, 5)
    assert (server.questions[0].input, server.questions[0].dimensions) == (("a", "b\r\nc"), 2)


async def test_equal_inputs_are_answered_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    server = script()
    async with serve(server, tmp_path, monkeypatch, redis_url=redis_url) as client:
        answers = []
        while len(server.questions) == len(answers):
            answers.append(await client.embeddings.create(model="m", input=[[1, 2], [3]]))
    assert all(answer.data == answers[0].data for answer in answers)
    assert server.questions[0].input == ((1, 2), (3,))
