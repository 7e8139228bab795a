"""Models that none of the known signatures fits."""

import time
from typing import Any

import numpy as np

from tests.support.servers.triton_models import common


class MappedModel(common.Streaming):
    """Answers with the text so far, and ends with an empty final response and no reason."""

    def stream(self, request: Any, sender: Any) -> None:
        tensors = common.Tensors(request, self.config)
        script = common.Script(tensors.one("QUESTION"), tensors.raw)
        text = ""
        for number, token in enumerate(script.tokens[: tensors.one("LIMIT")]):
            if number == script.wait_after:
                common.wait_until_cancelled(sender)
            if sender.is_cancelled():
                self.counts.cancelled.increment()
                break
            text += token
            answer = common.pb_utils.Tensor("ANSWER", np.asarray([[text.encode()]], dtype=np.object_))
            sender.send(common.response([answer, common.numbers("COUNT", [[1]], np.int32)]))
            time.sleep(common.STEP_S)
        sender.send(flags=common.FINAL)


class IdsModel(common.Streaming):
    """Answers with the token ids of its prompt, one at a time, and ends with an empty final response."""

    def stream(self, request: Any, sender: Any) -> None:
        tensors = common.Tensors(request, self.config)
        ids = tensors.given["input_ids"]
        if tensors.one("input_lengths") != len(ids):
            raise common.BadTensorError(f"input_lengths is {tensors.one('input_lengths')}, not {len(ids)}")
        for number in ids[: tensors.one("request_output_len")]:
            sender.send(common.response([common.numbers("output_ids", [[number]], np.int32)]))
            time.sleep(common.STEP_S)
        sender.send(flags=common.FINAL)


class ForeignModel:
    """A model of numbers."""

    def execute(self, requests: list[Any]) -> list[Any]:
        return [common.response([common.numbers("OUTPUT0", np.zeros((1, 16)), np.float32)]) for _ in requests]
