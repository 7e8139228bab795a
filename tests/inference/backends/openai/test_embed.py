import struct

import pytest

from inference.backends.port import Usage
from inference.core.backend_errors import FailedError
from inference.core.question import Question
from tests.support.servers.calls import CALL, Connect, StartServer

QUESTION = Question(operation="embeddings", input=("a", "b"), dimensions=2)


@pytest.mark.parametrize("kind", ["sglang", "llamacpp"])
async def test_vectors_come_in_the_order_of_the_inputs(start_server: StartServer, connect: Connect, kind: str) -> None:
    server = await start_server(kind)
    embeddings = await connect(server.url).embed(QUESTION, CALL)
    assert [struct.unpack("<2f", vector) for vector in embeddings.vectors] == [(0.0, 0.5), (1.0, 0.5)]
    assert embeddings.usage == Usage(5, 0)
    assert server.bodies == [{"model": "llm", "input": ["a", "b"], "encoding_format": "base64", "dimensions": 2}]


async def test_an_answer_that_lacks_a_vector_is_a_failure(start_server: StartServer, connect: Connect) -> None:
    server = await start_server("sglang")
    server.fault = "too few"
    with pytest.raises(FailedError, match="1 embeddings for 2 inputs"):
        await connect(server.url).embed(QUESTION, CALL)
