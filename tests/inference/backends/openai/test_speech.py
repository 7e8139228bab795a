"""Speech goes to servers that hear, with the official client."""

import asyncio

import msgspec
import openai
import pytest

from inference.core.passing import multipart
from tests.bench.transparent import in_front_of
from tests.support.gateway.process import KEY, Receiver, Serve
from tests.support.transparent.standin import MODEL, Recorder

SPEECH = b"RIFF" + bytes(range(256)) * 300


async def test_a_server_gets_the_speech_and_its_own_name_of_the_model(serve: Serve, receiver: Receiver) -> None:
    server = await Recorder().start()
    try:
        snapshot = in_front_of(server.url, KEY)
        [model] = snapshot.models
        snapshot = msgspec.structs.replace(snapshot, models=(msgspec.structs.replace(model, name="ear"),))
        gateway = await asyncio.to_thread(serve, snapshot)
        async with gateway.client() as client:
            for speech in (SPEECH[:1000], SPEECH):
                raw = await client.audio.transcriptions.with_raw_response.create(
                    model="ear", file=("a.wav", speech), prompt="é", timestamp_granularities=["word", "segment"]
                )
                got = server.got[-1]
                boundary = got.body.split(b"\r\n", 1)[0].removeprefix(b"--").decode()
                read = multipart.read(got.body, f"{got.content_type}; boundary={boundary}")
                values = [(part.name, got.body[part.value : part.end]) for part in read.parts]
                assert sorted(values) == [
                    ("file", speech),
                    ("model", MODEL.encode()),
                    ("prompt", "é".encode()),
                    ("timestamp_granularities[]", b"segment"),
                    ("timestamp_granularities[]", b"word"),
                ]
                spans = await receiver.trace(raw.headers["x-request-id"], spans=2)
                assert "transcription ear" in [span.name for span in spans]
            with pytest.raises(openai.BadRequestError, match="no form"):
                await client.post("/audio/transcriptions", cast_to=object, body={"model": "ear"})
    finally:
        await server.stop()
