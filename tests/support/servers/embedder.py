"""A server of vLLM's /v1/embeddings in a thread, as strict as that: each input has its vector, and its own tokens are counted."""

import json
import random
import struct
from base64 import b64encode
from collections.abc import Callable
from hashlib import blake2b
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from tokenizers import Tokenizer

from deploy.local.ports import LOOPBACK

MODEL = "embedder"
STYLES: dict[str, dict[str, Any]] = {
    "vLLM": {"separators": (",", ":")},
    "llama.cpp": {},
    "OpenAI": {"indent": 2},
}
"""How JSON is written."""


class Embedder:
    """`sent` are the inputs of each request. `mends` changes a document before it is written. `most_tokens` is where a text is cut,
    and `refuses` an input that no list may have.
    """

    def __init__(self, folder: Path) -> None:
        self.sent: list[list[Any]] = []
        self.style = "vLLM"
        self.mends: Callable[[dict[str, Any]], object] = lambda document: None
        self.refuses: object = None
        self.most_tokens = 1 << 20
        self.folder = folder.parent
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._server = ThreadingHTTPServer((LOOPBACK, 0), self._handler())
        self.url = f"http://{LOOPBACK}:{self._server.server_address[1]}/v1"
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

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
        return 200, json.dumps(document, **STYLES[self.style]).encode()

    def tokens(self, one: Any) -> int:
        return min(self.most_tokens, len(self._tokenizer.encode(one).ids) if isinstance(one, str) else len(one))

    def _vector(self, one: Any, body: dict[str, Any]) -> Any:
        numbers = random.Random(blake2b(json.dumps(one).encode()).digest())
        size = body.get("dimensions") or 8
        packed = struct.pack(f"<{size}f", *(numbers.gauss(0, 1) for _ in range(size)))
        if body.get("encoding_format") == "base64":
            return b64encode(packed).decode()
        return list(struct.unpack(f"<{size}f", packed))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        embedder = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # an answer goes out at once: in two parts, the second waits for the client's acknowledgement

            def do_GET(self) -> None:
                card = {"id": MODEL, "object": "model", "created": 1, "owned_by": "vllm"}
                self._say(200, json.dumps({"object": "list", "data": [card]}).encode())

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path == "/v1/embeddings":
                    embedder.sent.append(body["input"])
                    self._say(*embedder.answer(body))
                else:
                    self._say(404, b"{}")

            def _say(self, status: int, said: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, *_: object) -> None: ...

        return Handler
