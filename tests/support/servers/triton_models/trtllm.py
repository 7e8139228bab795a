"""TensorRT-LLM's ensemble and BLS as their clients see them (NVIDIA/TensorRT-LLM:triton_backend/all_models/
inflight_batcher_llm): tensors, deltas, counts, errors. There is no engine.
"""

import json
import time
import traceback
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.support.servers.triton_models import common

_GUIDES = ("json", "json_schema", "regex", "ebnf_grammar")


def check(tensors: common.Tensors) -> None:
    tensors.check("max_tokens", 1, 1 << 20)
    tensors.check("temperature", 0, 100, above=True)
    tensors.check("top_p", 0, 1, above=True)
    tensors.check("top_k", 0, 1 << 20)
    tensors.check("num_return_sequences", 1, 64)
    if not tensors.one("exclude_input_in_output"):
        raise common.BadTensorError("without exclude_input_in_output the prompt is part of the answer")
    # Without these the runtime's defaults count, which are not OpenAI's: the likeliest token, and the seed 0.
    if tensors.one("top_k") != 1 and tensors.one("top_p") is None:
        raise common.BadTensorError("top_p is missing: the answer would be greedy")
    if tensors.one("seed") is None:
        raise common.BadTensorError("seed is missing: all answers would be the same")
    kind, guide = tensors.one("guided_decoding_guide_type"), tensors.one("guided_decoding_guide")
    if kind is not None and kind not in _GUIDES:
        raise common.BadTensorError(f"guide type {kind}")
    if (kind in _GUIDES[1:]) != (guide is not None):
        raise common.BadTensorError("a guide belongs to its type")
    if kind == "json_schema":
        json.loads(guide)


class _Base(common.Streaming):
    def tokens(self, tensors: common.Tensors, script: common.Script, sequence: int) -> Iterator[tuple[str, int]]:
        """The texts of one sequence, each with its count of tokens. The stop word is part of the last one."""
        stops = tensors.given.get("stop_words", [])
        text = ""
        for number, token in enumerate(script.tokens[: tensors.one("max_tokens")]):
            if number == script.fail_after:
                raise RuntimeError("the executor failed")
            text += token + (str(sequence) if sequence else "")
            yield token + (str(sequence) if sequence else ""), 1
            if any(stop in text for stop in stops):
                return

    def outputs(
        self, tensors: common.Tensors, script: common.Script, sequence: int, text: str, count: int
    ) -> list[Any]:
        made = [common.pb_utils.Tensor("text_output", np.asarray([text.encode()], dtype=np.object_))]
        made.append(common.numbers("sequence_index", [[sequence]], np.int32))
        for flag, name, value in (
            ("return_num_input_tokens", "num_input_tokens", script.prompt_tokens),
            ("return_num_output_tokens", "num_output_tokens", count),
        ):
            if tensors.one(flag):
                made.append(common.numbers(name, [[value]], np.int32))
        return made


class EnsembleModel(_Base):
    """Its last response carries text and is final. It looks for cancellation."""

    def stream(self, request: Any, sender: Any) -> None:
        try:
            self.counts.begun.increment()
            tensors = common.Tensors(request, self.config)
            check(tensors)
            if not tensors.one("stream"):
                raise common.BadTensorError("stream is missing")
            guide = tensors.one("guided_decoding_guide")
            script = common.Script(tensors.one("text_input"), tensors.raw, json.loads(guide) if guide else None)
            if script.prompt_tokens > 1000:
                raise ValueError("Prompt length (1001) exceeds maximum input length (1000).")
            sequences = range(tensors.one("num_return_sequences", 1))
            rows = zip(*(self.tokens(tensors, script, number) for number in sequences), strict=False)
            parts = ((number, *part) for row in rows for number, part in enumerate(row))
            part = next(parts, None)
            sent = 0
            while part is not None:
                if sent == script.wait_after:
                    common.wait_until_cancelled(sender)
                if sender.is_cancelled():
                    self._stop(sender)
                    return
                made = common.response(self.outputs(tensors, script, *part))
                sent += 1
                part = None if sent == script.fail_after else next(parts, None)
                sender.send(made, 0 if part or sent == script.fail_after else common.FINAL)
                if sent == script.fail_after:
                    raise RuntimeError("the executor failed")
                time.sleep(common.STEP_S)
        except Exception as error:  # noqa: BLE001  (as the published model does)
            sender.send(common.response([], common.error(f"Encountered error for requestId 1: {error}")), common.FINAL)

    def _stop(self, sender: Any) -> None:
        self.counts.cancelled.increment()
        sender.send(common.response([], common.error("cancelled", common.pb_utils.TritonError.CANCELLED)), common.FINAL)


class BlsModel(_Base):
    """One request at a time; it never looks for cancellation, its errors are tracebacks, and its last response is empty."""

    def execute(self, requests: list[Any]) -> None:
        accumulates = self.config["parameters"]["accumulate_tokens"]["string_value"] == "true"
        for request in requests:
            sender = common.Sender(request)
            try:
                self.counts.begun.increment()
                tensors = common.Tensors(request, self.config)
                check(tensors)
                if "num_return_sequences" in tensors.given:
                    raise common.BadTensorError("the decoder reads no num_return_sequences")
                script = common.Script(tensors.one("text_input"), tensors.raw)
                text = ""
                for token, count in self.tokens(tensors, script, 0):
                    text = text + token if accumulates else token
                    sender.send(common.response(self.outputs(tensors, script, 0, text, count)))
                    time.sleep(common.STEP_S)
            except Exception:  # noqa: BLE001  (as the published model does)
                sender.send(common.response([], common.error(traceback.format_exc())))
            sender.send(flags=common.FINAL)
