"""Streamed requests to a chat model on Triton."""

import queue
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any

import numpy as np
import tritonclient.grpc as triton_grpc

from deploy.local.triton import Triton

PATIENCE_S = 120.0


@dataclass
class Answer:
    texts: list[str] = field(default_factory=list)
    finish_reason: str = ""
    error: str = ""

    @property
    def text(self) -> str:
        return "".join(self.texts)


class Stream:
    """A request that is running."""

    def __init__(
        self, server: Triton, model: str, prompt: str, *, traceparent: str = "", priority: int = 0, **values: float
    ) -> None:
        self.arrived: queue.Queue[tuple[Any, Any]] = queue.Queue()
        self.client = triton_grpc.InferenceServerClient(server.grpc)
        self.client.start_stream(
            lambda result, error: self.arrived.put((result, error)),
            headers={"traceparent": traceparent} if traceparent else None,
        )
        self.model = model
        self.ask(prompt, priority, **values)

    def ask(self, prompt: str, priority: int = 0, **values: float) -> None:
        """One more request on the same stream."""
        self.client.async_stream_infer(self.model, _inputs(prompt, **values), priority=priority)

    def next(self) -> tuple[str, str]:
        """The next token's text and finish reason. Raises RuntimeError with Triton's words where it failed."""
        result, error = self.arrived.get(timeout=PATIENCE_S)
        if error is not None:
            raise RuntimeError(str(error))
        return result.as_numpy("text")[0, 0].decode(), result.as_numpy("finish_reason")[0, 0].decode()

    def all(self) -> Answer:
        answer = Answer()
        while not answer.finish_reason:
            try:
                text, answer.finish_reason = self.next()
            except RuntimeError as error:
                answer.error = str(error)
                break
            answer.texts.append(text)
        self.close()
        return answer

    def cancel(self) -> None:
        self.client.stop_stream(cancel_requests=True)
        self.client.close()

    def close(self) -> None:
        self.client.stop_stream()
        self.client.close()


def ask(server: Triton, model: str, prompt: str, **values: float) -> Answer:
    return Stream(server, model, prompt, **values).all()


def _inputs(
    prompt: str, *, prompt_tokens: int = 10, max_tokens: int = 20, temperature: float = 0.0, seed: int = -1
) -> list[triton_grpc.InferInput]:
    values = (
        ("prompt", "BYTES", np.array([[prompt.encode()]], dtype=np.object_)),
        ("prompt_tokens", "INT32", np.array([[prompt_tokens]], dtype=np.int32)),
        ("max_tokens", "INT32", np.array([[max_tokens]], dtype=np.int32)),
        ("temperature", "FP32", np.array([[temperature]], dtype=np.float32)),
        ("seed", "INT64", np.array([[seed]], dtype=np.int64)),
    )
    inputs = []
    for name, kind, value in values:
        tensor = triton_grpc.InferInput(name, [1, 1], kind)
        tensor.set_data_from_numpy(value)
        inputs.append(tensor)
    return inputs


def triton_metric(triton: Triton, name: str, model: str) -> float:
    connection = HTTPConnection(triton.metrics, timeout=60)
    connection.request("GET", "/metrics")
    page = connection.getresponse().read().decode()
    connection.close()
    lines = [line for line in page.splitlines() if line.startswith(f"{name}{{") and f'model="{model}"' in line]
    return sum(float(line.rpartition(" ")[2]) for line in lines)  # one for each of the model's instances
