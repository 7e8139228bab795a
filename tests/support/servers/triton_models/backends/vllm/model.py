"""The vLLM backend of Triton as its clients see it (vllm_backend:src/model.py, src/utils/request.py): tensors, deltas,
errors and cancellation. It has no engine.
"""

import json
import time
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from tests.support.servers.triton_models import common

_INPUTS = (
    ("text_input", "TYPE_STRING", [1], False),
    ("image", "TYPE_STRING", [-1], True),
    ("stream", "TYPE_BOOL", [1], True),
    ("sampling_parameters", "TYPE_STRING", [1], True),
    ("exclude_input_in_output", "TYPE_BOOL", [1], True),
    ("return_finish_reason", "TYPE_BOOL", [1], True),
    ("return_cumulative_logprob", "TYPE_BOOL", [1], True),
    ("return_logprobs", "TYPE_BOOL", [1], True),
    ("return_num_input_tokens", "TYPE_BOOL", [1], True),
    ("return_num_output_tokens", "TYPE_BOOL", [1], True),
    ("embedding_request", "TYPE_STRING", [1], True),
)
_OUTPUTS = (
    ("text_output", "TYPE_STRING", [-1]),
    ("finish_reason", "TYPE_STRING", [-1]),
    ("cumulative_logprob", "TYPE_FP32", [-1]),
    ("logprobs", "TYPE_STRING", [-1]),
    ("num_input_tokens", "TYPE_UINT32", [1]),
    ("num_output_tokens", "TYPE_UINT32", [-1]),
)
_SAMPLING = {  # fields of vLLM's SamplingParams
    "n": int, "presence_penalty": float, "frequency_penalty": float, "repetition_penalty": float, "temperature": float,
    "top_p": float, "top_k": int, "min_p": float, "seed": int, "stop": list, "stop_token_ids": list, "bad_words": list,
    "ignore_eos": bool, "max_tokens": int, "min_tokens": int, "logprobs": int, "skip_special_tokens": bool,
    "include_stop_str_in_output": bool, "structured_outputs": str,
}  # fmt: skip
_STRUCTURES = ("json", "regex", "choice", "grammar", "json_object", "structural_tag")


class TritonPythonModel(common.Streaming):
    @staticmethod
    def auto_complete_config(config: Any) -> Any:
        for name, data_type, dims, optional in _INPUTS:
            config.add_input({"name": name, "data_type": data_type, "dims": dims, "optional": optional})
        for name, data_type, dims in _OUTPUTS:
            config.add_output({"name": name, "data_type": data_type, "dims": dims})
        config.set_model_transaction_policy({"decoupled": True})
        config.set_max_batch_size(0)
        return config

    def stream(self, request: Any, sender: Any) -> None:
        try:
            self._generate(request, sender)
        except Exception as error:  # noqa: BLE001  (as the published model does)
            failed = common.error(f"Error generating stream: {error}")
            sender.send(common.response([common.texts("text_output", ["N/A"])], failed), common.FINAL)

    def _generate(self, request: Any, sender: Any) -> None:
        self.counts.begun.increment()
        tensors = common.Tensors(request, self.config)
        if "embedding_request" in tensors.given:
            raise common.BadTensorError("embedding_request is reserved")
        sampling = _sampling(tensors.one("sampling_parameters", "{}"))
        if not tensors.one("stream") or not tensors.one("exclude_input_in_output", default=True):
            raise ValueError("When streaming, `exclude_input_in_output` = False is not allowed.")
        script = common.Script(tensors.one("text_input"), tensors.raw, _schema(sampling))
        if script.prompt_tokens > 1000:
            raise ValueError("The decoder prompt (length 1001) is longer than the maximum model length of 1000.")
        limit = sampling.get("max_tokens", 16)
        tokens, stopped = common.before_stop_word(script.tokens[:limit], sampling.get("stop", []))
        ending = "stop" if stopped or limit >= len(script.tokens) else "length"
        for number, token in enumerate(tokens):
            if number == script.fail_after:
                raise RuntimeError("the engine failed")
            if number == script.wait_after:
                common.wait_until_cancelled(sender)
            if sender.is_cancelled():
                self.counts.cancelled.increment()
                gone = common.error("Request was cancelled", pb_utils.TritonError.CANCELLED)
                sender.send(common.response([], gone), common.FINAL)
                return
            reason = ending if number == len(tokens) - 1 else "None"
            outputs = [common.texts("text_output", [token])]
            if tensors.one("return_finish_reason"):
                outputs.append(common.texts("finish_reason", [reason]))
            if tensors.one("return_logprobs"):
                outputs.append(common.texts("logprobs", [_logprobs(token, sampling.get("logprobs"))]))
            if tensors.one("return_num_input_tokens"):
                outputs.append(common.numbers("num_input_tokens", script.prompt_tokens, np.uint32))
            if tensors.one("return_num_output_tokens"):
                outputs.append(common.numbers("num_output_tokens", [1], np.uint32))
            sender.send(common.response(outputs), 0 if reason == "None" else common.FINAL)
            if reason != "None":
                return
            time.sleep(common.STEP_S)


def _sampling(text: str) -> dict[str, Any]:
    """As TritonSamplingParams.from_dict reads it; whatever is wrong becomes the same message."""
    try:
        given = json.loads(text)
        for key, value in given.items():
            kind = _SAMPLING[key]
            if not isinstance(value, (int, float) if kind is float else kind) or (kind is not bool and value is True):
                raise TypeError(key)
        if "structured_outputs" in given:
            structure = json.loads(given["structured_outputs"])
            if len(structure) != 1 or next(iter(structure)) not in _STRUCTURES:
                raise ValueError("structured_outputs")
        if not 0 < given.get("top_p", 1) <= 1 or given.get("temperature", 0) < 0 or given.get("max_tokens", 1) < 1:
            raise ValueError("range")
    except (KeyError, TypeError, ValueError):
        raise AttributeError("'NoneType' object has no attribute 'lora_name'") from None
    return given


def _schema(sampling: dict[str, Any]) -> dict[str, Any] | None:
    structure: dict[str, Any] = json.loads(sampling.get("structured_outputs", "{}"))
    schema = structure.get("json")
    return json.loads(schema) if isinstance(schema, str) else schema


def _logprobs(token: str, top: int | None) -> str:
    if top is None:
        return "null"
    candidates = {"17": {"logprob": -0.5, "rank": 1, "decoded_token": token}}
    for rank in range(1, top):
        candidates[str(100 + rank)] = {"logprob": -0.5 - rank, "rank": rank + 1, "decoded_token": f"alt{rank}"}
    return json.dumps([candidates])
