"""A model that embeds: its vector says what it got, and how many requests came at once."""

from typing import Any

import numpy as np

from tests.support.servers.triton_models import common


class Embedder:
    """The vector of a text: how long it is, the sum of its bytes, and 0.5. One text, `!fail`, cannot be embedded."""

    def execute(self, requests: list[Any]) -> list[Any]:
        return [self._answer(request.inputs()[0].as_numpy()) for request in requests]

    def _answer(self, texts: Any) -> Any:
        [text] = [bytes(text) for text in texts.reshape(-1)]
        if text == b"!fail":
            return common.pb_utils.InferenceResponse(error=common.pb_utils.TritonError("it cannot embed this"))
        return common.response([common.numbers("VECTOR", [[len(text), sum(text), 0.5]], np.float32)])
