"""TensorRT-LLM's LLM API model as its clients see it (NVIDIA/TensorRT-LLM:triton_backend/all_models/llmapi/tensorrt_llm).
There is no engine. `model.yaml` says whether it is decoupled, and whether it sends the text so far or only what is new.
"""

import time
from pathlib import Path
from typing import Any

from tests.support.servers.triton_models import common


class LlmApiModel(common.Streaming):
    @staticmethod
    def auto_complete_config(config: Any) -> Any:
        decoupled = "decoupled: True" in Path(common.pb_utils.get_model_dir(), "model.yaml").read_text()
        config.set_model_transaction_policy({"decoupled": decoupled})
        config.set_max_batch_size(0)
        return config

    def initialize(self, args: dict[str, str]) -> None:
        super().initialize(args)
        self.decoupled = common.pb_utils.using_decoupled_model_transaction_policy(self.config)
        self.so_far = "text: so_far" in Path(common.pb_utils.get_model_dir(), "model.yaml").read_text()

    def execute(self, requests: list[Any]) -> Any:
        if not self.decoupled:
            return [self._whole(request) for request in requests]
        return super().execute(requests)

    def _read(self, request: Any) -> tuple[common.Tensors, common.Script, list[str], str]:
        self.counts.begun.increment()
        tensors = common.Tensors(request, self.config)
        tensors.check("sampling_param_temperature", 0, 100, above=True)
        tensors.check("sampling_param_top_p", 0, 1, above=True)
        tensors.check("sampling_param_max_tokens", 1, 1 << 20)
        if "sampling_param_max_tokens" not in tensors.given:
            raise common.BadTensorError("sampling_param_max_tokens is missing: the answer would end after 32 tokens")
        if tensors.one("sampling_param_top_k") != 1 and tensors.one("sampling_param_top_p") is None:
            raise common.BadTensorError("sampling_param_top_p is missing: the answer would be greedy")
        if tensors.one("sampling_param_seed") is None:
            raise common.BadTensorError("sampling_param_seed is missing: all answers would be the same")
        if not tensors.one("sampling_param_exclude_input_from_output"):
            raise common.BadTensorError(
                "without sampling_param_exclude_input_from_output the prompt is part of the answer"
            )
        if tensors.one("streaming") and not self.decoupled:
            raise common.BadTensorError("Streaming is only supported in decoupled mode.")
        script = common.Script(tensors.one("text_input"), tensors.raw)
        limit = tensors.one("sampling_param_max_tokens")
        kept, stopped = common.before_stop_word(script.tokens[:limit], tensors.given.get("sampling_param_stop", []))
        reason = "stop" if stopped or limit >= len(script.tokens) else "length"
        return tensors, script, kept, reason

    def _whole(self, request: Any) -> Any:
        try:
            tensors, _, tokens, reason = self._read(request)
            return common.response(self._outputs(tensors, "".join(tokens), reason))
        except Exception as error:  # noqa: BLE001  (as the published model does)
            return common.response([], common.error(f"Error generating request: {error}"))

    def stream(self, request: Any, sender: Any) -> None:
        try:
            tensors, script, tokens, reason = self._read(request)
            text = ""
            for number, token in enumerate(tokens):
                if number == script.wait_after:
                    common.wait_until_cancelled(sender)
                if sender.is_cancelled():
                    self.counts.cancelled.increment()
                    stopped = common.error("Request cancelled by client", common.pb_utils.TritonError.CANCELLED)
                    sender.send(common.response([], stopped), common.FINAL)
                    return
                if number == script.fail_after:
                    raise RuntimeError("the engine failed")
                text = text + token if self.so_far else token
                last = number == len(tokens) - 1
                sender.send(
                    common.response(self._outputs(tensors, text, reason if last else "None")),
                    common.FINAL if last else 0,
                )
                time.sleep(common.STEP_S)
        except Exception as error:  # noqa: BLE001  (as the published model does)
            failed = common.error(f"Error generating request: {error}")
            sender.send(common.response([common.texts("text_output", ["N/A"])], failed), common.FINAL)

    @staticmethod
    def _outputs(tensors: common.Tensors, text: str, reason: str) -> list[Any]:
        made = [common.texts("text_output", [text])]
        if tensors.one("return_finish_reason"):
            made.append(common.texts("finish_reason", [reason]))
        return made
