"""A server of vLLM's /v1/embeddings, as strict as that: each input has its vector, and its own tokens are counted."""

import json
import random
import struct
from base64 import b64encode
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

from aiohttp import web
from tokenizers import Tokenizer

from tests.support.http_server import ThreadedServer

MODEL = "embedder"
STYLES: dict[str, dict[str, Any]] = {"vLLM": {"separators": (",", ":")}, "llama.cpp": {}, "OpenAI": {"indent": 2}}
"""How JSON is written."""


class Embedder(ThreadedServer):
    """`sent` are the inputs of each request. `mends` changes a document before it is written. `most_tokens` is where a text is cut,
    `refuses` an input that no list may have, and `status` is that of what it makes.
    """

    path = "/v1"

    def __init__(self, folder: Path) -> None:
        super().__init__(web.get("/v1/models", self._models), web.post("/v1/embeddings", self._embeddings))
        self.sent: list[list[Any]] = []
        self.style = "vLLM"
        self.mends: Callable[[dict[str, Any]], object] = lambda document: None
        self.refuses: object = None
        self.status = 200
        self.most_tokens = 1 << 20
        self.folder = folder.parent
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    async def _models(self, _: web.Request) -> web.Response:
        card = {"id": MODEL, "object": "model", "created": 1, "owned_by": "vllm"}
        return web.json_response({"object": "list", "data": [card]})

    async def _embeddings(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.sent.append(body["input"])
        status, said = self.answer(body)
        return web.Response(status=status, body=said, content_type="application/json")

    def answer(self, body: dict[str, Any]) -> tuple[int, bytes]:
        """What it answers, byte for byte."""
        given = body["input"]
        inputs = given if isinstance(given, list) and not isinstance(given[0], int) else [given]
        if self.refuses in inputs:
            message = f"input[{inputs.index(self.refuses)}] is too long"
            return 400, json.dumps({"error": {"message": message, "type": "BadRequestError", "code": 400}}).encode()
        data = [
            {"index": at, "object": "embedding", "embedding": self._vector(it, body)} for at, it in enumerate(inputs)
        ]
        tokens = sum(map(self.tokens, inputs))
        usage = {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0, "prompt_tokens_details": None}
        document = {"id": "embd-1", "object": "list", "created": 1, "model": MODEL, "data": data, "usage": usage}
        self.mends(document)
        return self.status, json.dumps(document, **STYLES[self.style]).encode()

    def tokens(self, one: Any) -> int:
        return min(self.most_tokens, len(self._tokenizer.encode(one).ids) if isinstance(one, str) else len(one))

    def _vector(self, one: Any, body: dict[str, Any]) -> Any:
        numbers = random.Random(blake2b(json.dumps(one).encode()).digest())
        size = body.get("dimensions") or 8
        packed = struct.pack(f"<{size}f", *(numbers.gauss(0, 1) for _ in range(size)))
        if body.get("encoding_format") == "base64":
            return b64encode(packed).decode()
        return list(struct.unpack(f"<{size}f", packed))
