"""Runs the chat models in Triton's python backend. docs/models.md lists their inputs, outputs and parameters."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # exists only inside Triton

from deploy.local.models.engine import Engine
from deploy.local.models.language import LanguageModel
from deploy.local.models.timing import TIMINGS

CORPUS = Path(__file__).with_name("corpus.txt")


class Metrics:
    """Metrics on Triton's page, labelled by model and instance."""

    def __init__(self, model: str, instance: str) -> None:
        self._families = []  # Triton needs them as long as their metrics

        def metric(kind: int, name: str, description: str) -> Any:
            family = pb_utils.MetricFamily(name=name, description=description, kind=kind)
            self._families.append(family)
            return family.Metric(labels={"model": model, "instance": instance})

        self.active = metric(pb_utils.MetricFamily.GAUGE, "weir_model_active_sequences", "Sequences being computed now")
        self.tokens = metric(pb_utils.MetricFamily.COUNTER, "weir_model_tokens_total", "Tokens generated")
        self.cancelled = metric(
            pb_utils.MetricFamily.COUNTER, "weir_model_cancelled_total", "Sequences stopped by a cancellation"
        )


class ChatSequence:
    """One Triton request. Its tokens are sent through its response sender."""

    def __init__(
        self, request: Any, texts: Iterator[str], prompt_tokens: int, max_tokens: int, model: "TritonPythonModel"
    ) -> None:
        self.prompt_tokens = prompt_tokens
        self._request = request
        self._sender = request.get_response_sender()
        self._texts = texts
        self._max_tokens = max_tokens
        self._model = model
        self._sent = 0
        self._next = next(texts, None)

    def cancelled(self) -> bool:
        return bool(self._sender.is_cancelled())

    def step(self) -> bool:
        if self._sent == self._model.fail_after_tokens:
            self._end(
                pb_utils.TritonError(
                    "the model failed, as its parameter fail_after_tokens demands", pb_utils.TritonError.INTERNAL
                )
            )
            return False
        text, self._next = self._next or "", next(self._texts, None)
        self._sent += 1
        reason = "stop" if self._next is None else "length" if self._sent >= self._max_tokens else ""
        self._model.tokens += 1
        flags = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL if reason else 0
        self._sender.send(pb_utils.InferenceResponse([_text("text", text), _text("finish_reason", reason)]), flags)
        return not reason

    def abandon(self) -> None:
        self._model.metrics.cancelled.increment(1)
        self._end(pb_utils.TritonError("cancelled by its client", pb_utils.TritonError.CANCELLED))

    def _end(self, error: Any) -> None:
        self._sender.send(pb_utils.InferenceResponse(error=error), pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        config = json.loads(args["model_config"])
        given = {name: value["string_value"] for name, value in config["parameters"].items()}
        self.max_batch = int(config["max_batch_size"])
        self.fail_after_tokens = int(given.get("fail_after_tokens", "-1"))
        self.language = LanguageModel.load(CORPUS)
        self.metrics = Metrics(args["model_name"], args["model_instance_name"])
        self.tokens = 0
        self.engine = Engine(
            TIMINGS[given["timing"]],
            slots=int(given["max_sequences"]),
            time_scale=float(given.get("time_scale") or os.environ.get("WEIR_MODEL_TIME_SCALE", "1")),
            on_step=self._report,
        )

    def execute(self, requests: list[Any]) -> None:
        """Starts all requests of the batch at once, and returns when there is room for another whole batch.

        So requests wait in Triton's own queue, where priorities and the queue policy hold, and its trace calls that `queue`.
        """
        sequences = []
        for request in requests:
            prompt = _value(request, "prompt").decode("utf-8", "replace")
            seed = int(_value(request, "seed"))
            texts = self.language.generate(
                prompt, temperature=float(_value(request, "temperature")), seed=None if seed < 0 else seed
            )
            prompt_tokens, max_tokens = int(_value(request, "prompt_tokens")), int(_value(request, "max_tokens"))
            sequences.append(ChatSequence(request, texts, max(prompt_tokens, 1), max(max_tokens, 1), self))
        self.engine.submit(sequences, room_for=self.max_batch)

    def finalize(self) -> None:
        self.engine.stop()

    def _report(self, active: int) -> None:
        """Called once per step, because each call is a message to another process."""
        self.metrics.active.set(active)
        self.metrics.tokens.increment(self.tokens)
        self.tokens = 0


def _value(request: Any, name: str) -> Any:
    return pb_utils.get_input_tensor_by_name(request, name).as_numpy().reshape(-1)[0]


def _text(name: str, value: str) -> Any:
    return pb_utils.Tensor(name, np.array([[value.encode()]], dtype=np.object_))
