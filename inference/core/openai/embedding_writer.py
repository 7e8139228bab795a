"""Encodes the answers of /v1/embeddings."""

from array import array
from base64 import b64encode
from typing import Literal

import msgspec

from inference.core.events import WholeAnswer
from inference.core.openai.writers import Writer


class EmbeddingWriter(Writer):
    """`base64` gives each vector as the text of its little-endian 32-bit floats, which the official client asks for."""

    def __init__(self, model: str, encoding_format: Literal["float", "base64"]) -> None:
        self._model = model
        self._base64 = encoding_format == "base64"

    def whole(self, answer: WholeAnswer) -> bytes:
        tokens = max(0, answer.prompt_tokens)
        return msgspec.json.encode(
            {
                "object": "list",
                "model": self._model,
                "data": [
                    {"object": "embedding", "index": index, "embedding": self._vector(vector)}
                    for index, vector in enumerate(answer.vectors)
                ],
                "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
            }
        )

    def _vector(self, vector: bytes) -> str | list[float]:
        return b64encode(vector).decode() if self._base64 else array("f", vector).tolist()
