"""What the stand-ins for models on Triton share: strict reading of tensors, and the answers that they give.

They run inside Triton's python backend, in its own environment. A user's message says what the model answers:
`say: one two three` those words, a token each; `!tensors` what the model received, as JSON in hexadecimal digits (so that it
has none of its own stop words); `!fail=2` an error after two tokens; `!wait` one token (`!wait=0` none), and then nothing until
the request is cancelled; `!call=weather` a call of that function as Hermes models write it; `!guided` what the request's
schema of allowed calls allows.
"""

import json
import re
import threading
import time
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # exists only inside Triton

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
STEP_S = 0.002
_SENDING = threading.Lock()  # what Triton is told, one thing at a time


class Sender:
    """Responses of a model leave one at a time, as the published backends send them from a thread of their own."""

    def __init__(self, request: Any) -> None:
        self._sender = request.get_response_sender()

    def send(self, *response: Any, **flags: Any) -> None:
        with _SENDING:
            self._sender.send(*response, **flags)

    def is_cancelled(self) -> bool:
        with _SENDING:
            return bool(self._sender.is_cancelled())


class BadTensorError(Exception):
    """A tensor is not what the published model takes."""


class Tensors:
    """The inputs of a request, each as a list of its elements. Reading one counts as knowing it: `check_all_read` finds
    the others.
    """

    def __init__(self, request: Any, config: dict[str, Any]) -> None:
        batch = [1] if int(config.get("max_batch_size", 0)) > 0 else []
        self.given: dict[str, list[Any]] = {}
        self.raw: dict[str, Any] = {}
        expected = {item["name"]: item for item in config["input"]}
        for tensor in request.inputs():
            item = expected[tensor.name()]
            array = tensor.as_numpy()
            dims = [] if item.get("reshape") else [int(dim) for dim in item["dims"]]
            shape = list(array.shape)
            fits = len(shape) == len(batch + dims) and all(
                have == want or want == -1 for have, want in zip(shape, batch + dims, strict=True)
            )
            if not fits:
                raise BadTensorError(f"{tensor.name()} has shape {shape}, not {batch + dims}")
            values = array.reshape(-1).tolist()
            self.given[tensor.name()] = [v.decode("utf-8") if isinstance(v, bytes) else v for v in values]
            datatype = item["data_type"].removeprefix("TYPE_")
            self.raw[tensor.name()] = ["BYTES" if datatype == "STRING" else datatype, shape, self.given[tensor.name()]]
        for name, item in expected.items():
            if not item.get("optional") and name not in self.given:
                raise BadTensorError(f"{name} is missing")

    def one(self, name: str, default: Any = None) -> Any:
        return self.given[name][0] if name in self.given else default

    def check(self, name: str, lowest: float, highest: float, *, above: bool = False) -> None:
        value = self.one(name)
        if value is not None and not (lowest <= value <= highest and not (above and value == lowest)):
            raise BadTensorError(f"{name} is {value}, not in {lowest}..{highest}")


class Script:
    """What a prompt wants the model to do, as tokens."""

    def __init__(self, prompt: str, tensors: dict[str, Any], schema: dict[str, Any] | None = None) -> None:
        message = prompt.rpartition("say:")[2] if "say:" in prompt else prompt
        message = re.split(r"<\|im_end\|>|</s>|\[/INST\]", message)[0].strip("\n")
        fail = re.search(r"!fail=(\d+)", prompt)
        self.fail_after = int(fail[1]) if fail else -1
        wait = re.search(r"!wait(?:=(\d+))?", prompt)
        self.wait_after = int(wait[1] or 1) if wait else -1
        call = re.search(r"!call=(\w+)", prompt)
        text = re.sub(r"!\S+\s*", "", message).strip()
        if "!tensors" in prompt:
            text = json.dumps(tensors).encode().hex()
        elif call:
            text += _call(call[1], prompt)
        elif "!guided" in prompt:
            text = _guided(schema)
        self.tokens = re.findall(r"\s*\S+", text)
        self.prompt_tokens = len(prompt.split())


def _call(name: str, prompt: str) -> str:
    if f'"{name}"' not in prompt:
        raise BadTensorError(f"the prompt has no function {name}")
    return f'<tool_call>\n{{"name": "{name}", "arguments": {{"city": "Oslo"}}}}\n</tool_call>'


def _guided(schema: dict[str, Any] | None) -> str:
    """The first call that the schema allows, with a city for each argument."""
    if schema is None:
        raise BadTensorError("the request has no schema to be guided by")
    allowed = schema["items"]["anyOf"][0]["properties"]
    arguments = dict.fromkeys(allowed["parameters"]["properties"], "Oslo")
    return json.dumps([{"name": allowed["name"]["enum"][0], "parameters": arguments}])


def before_stop_word(tokens: list[str], stops: list[str]) -> tuple[list[str], bool]:
    """The tokens before the stop word that is complete first, as engines pass them on that keep back what may become one, and
    whether there was one.
    """
    text = ""
    for token in tokens:
        text += token
        ends = [at for stop in stops if (at := text.find(stop)) >= 0]
        if ends:
            kept, left = [], text[: min(ends)]
            for earlier in tokens:
                if left:
                    kept.append(left[: len(earlier)])
                    left = left[len(earlier) :]
            return kept or [""], True
    return tokens, False


def run_in_thread(function: Any, *args: Any) -> None:
    threading.Thread(target=function, args=args, daemon=True).start()


def texts(name: str, values: list[str]) -> Any:
    return pb_utils.Tensor(name, np.asarray([value.encode() for value in values], dtype=np.object_))


def numbers(name: str, values: Any, dtype: Any) -> Any:
    return pb_utils.Tensor(name, np.asarray(values, dtype=dtype))


def error(message: str, code: Any = None) -> Any:
    return pb_utils.TritonError(message, code) if code is not None else pb_utils.TritonError(message)


def response(tensors: list[Any], failure: Any = None) -> Any:
    return pb_utils.InferenceResponse(output_tensors=tensors, error=failure)


def wait_until_cancelled(sender: Any) -> None:
    while not sender.is_cancelled():
        time.sleep(STEP_S)


class Counter:
    """Requests of a model begin side by side, and Triton 2.51 crashes where two threads increment one metric at once (SIGSEGV in
    the python backend's Metric::LoadFromSharedMemory).
    """

    def __init__(self, metric: Any) -> None:
        self._metric = metric

    def increment(self) -> None:
        with _SENDING:
            self._metric.increment(1)


class Counts:
    """Requests on Triton's metrics page, by model: `weir_standin_begun_total` and `weir_standin_cancelled_total`."""

    def __init__(self, model: str) -> None:
        self._families = []  # Triton needs them as long as their metrics

        def counter(name: str, description: str) -> Counter:
            family = pb_utils.MetricFamily(name=name, description=description, kind=pb_utils.MetricFamily.COUNTER)
            self._families.append(family)
            return Counter(family.Metric(labels={"model": model}))

        self.begun = counter("weir_standin_begun_total", "Requests that the model has begun")
        self.cancelled = counter("weir_standin_cancelled_total", "Requests that were cancelled")


class Streaming:
    """A model that answers each request in a thread of its own, by `stream`."""

    def initialize(self, args: dict[str, str]) -> None:
        self.config = json.loads(args["model_config"])
        self.counts = Counts(args["model_name"])

    def execute(self, requests: list[Any]) -> Any:
        for request in requests:
            run_in_thread(self.stream, request, Sender(request))

    def stream(self, request: Any, sender: Sender) -> None:
        raise NotImplementedError
