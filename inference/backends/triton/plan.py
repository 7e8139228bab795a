"""How questions become requests for one model: made once, when the model is seen, and used for each request."""

import struct
from array import array
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from tritonclient.grpc import service_pb2 as pb  # type: ignore[import-untyped]

from inference.backends.triton import facts
from inference.backends.triton.signatures import Input, Signature
from inference.backends.triton.template import Kept
from inference.backends.triton.values import PARAMETERS, VALUES, Request, Value
from inference.contract.stages import Operation
from inference.core.backend_errors import InvalidError
from inference.core.capabilities import Capabilities, Handling
from inference.core.protobuf import field
from inference.core.question import GENERATION

COUNTED = "\0tokens"
"""An output that no model has: how many token ids there were."""
_length = struct.Struct("<I")
_ID, _RAW_INPUT_CONTENTS = 0x1A, 0x3A  # fields 3 and 7 of ModelInferRequest
_PACK: Mapping[str, Callable[[Any], bytes]] = {
    "BOOL": struct.Struct("<?").pack,
    "INT32": struct.Struct("<i").pack,
    "INT64": struct.Struct("<q").pack,
    "UINT32": struct.Struct("<I").pack,
    "UINT64": struct.Struct("<Q").pack,
    "FP32": struct.Struct("<f").pack,
}
ARRAYS = {"INT32": "i", "INT64": "q", "UINT32": "I", "UINT64": "Q"}
_BY_THE_GATEWAY: dict[str, Handling] = {
    "tools": "gateway",
    "tool_choice": "gateway",
    "parallel_tool_calls": "gateway",
    "tool_calls": "gateway",
    "reasoning_effort": "gateway",
    "chat_template_kwargs": "gateway",
    "n": "gateway",
}
"""By the template that renders the prompt and the parser of the answer, and `n` by as many calls."""


_offers: dict[tuple[object, ...], Capabilities] = {}
"""Models that offer the same share it, so that a pool sees at once that its servers do."""
_WHERE_REQUIRED: dict[str, Value] = {"top_p": 1.0, "top_k": 0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
"""Values that change nothing, for inputs that a model must get and a client has left out."""


class _Carrier(NamedTuple):
    """An input that depends on the question. `tensor` is its encoded description, where its shape is always the same."""

    input: Input
    value: Callable[[Request], Value]
    tensor: bytes


class Plan:
    """A signature as one model has it: `encode` makes requests, and `outputs` says what each response's tensors mean."""

    def __init__(self, model: facts.Model, signature: Signature) -> None:
        self.model = model
        self.signature = signature
        self.capabilities = capabilities(signature, model)
        present = [item for item in signature.outputs if item.name in model.outputs]
        repeats = any(item.value == "text_so_far" for item in present)
        accumulates = signature.name == "trtllm_bls" and model.accumulates
        self.text_so_far = True if accumulates or repeats else model.text_so_far
        self.outputs = {item.name: item.value.removesuffix("_so_far") for item in present}
        self.ids = next((name for name, value in self.outputs.items() if value == "token_ids"), "")
        self.cuts_length = self.capabilities.parameters["max_tokens"] == "gateway"
        self.ends_by_final = signature.ends == "final" or "finish_reason" not in self.outputs.values()
        self._leading = (1,) if model.batched else ()
        self._carriers: list[_Carrier] = []
        base = pb.ModelInferRequest()
        for item in _present(signature, model):
            if item.value == "constant":
                value = msgspec.json.decode(item.constant)
                base.inputs.append(self._describe(item, value))
                base.raw_input_contents.append(_pack(item.datatype, value))
            else:
                fixed = b"" if item.dims and _is_list(item) else _only_input(self._describe(item, None))
                value_of = VALUES[item.value]
                if not model.inputs[item.name].optional and item.value in _WHERE_REQUIRED:
                    value_of = _or(value_of, _WHERE_REQUIRED[item.value])
                self._carriers.append(_Carrier(item, value_of, fixed))
        for name in self.outputs:
            base.outputs.add(name=name)
        if self.ids:  # they become texts before anything reads them (`token_ids`)
            self.outputs[self.ids] = "text"
            if "output_tokens" not in self.outputs.values():
                self.outputs[COUNTED] = "output_tokens"
        self._base = bytes(base.SerializeToString())
        self._heads: dict[tuple[str, int], bytes] = {}  # by model version and priority
        self.kept: Kept | None = None  # from an answer, for the next

    def encode(self, request: Request, model_version: str, priority: int) -> bytes:
        """A ModelInferRequest. Raises InvalidError for what the server cannot take."""
        head = self._heads.get((model_version, priority))
        if head is None:
            head = self._heads[model_version, priority] = self._head(model_version, priority)
        # Protobuf messages merge by being written one after the other, and so do fields that have been encoded.
        parts, contents = [head, field(_ID, request.id)], []
        for item, value_of, fixed in self._carriers:
            value = value_of(request)
            if value is not None:
                parts.append(fixed or _only_input(self._describe(item, value)))
                try:
                    contents.append(field(_RAW_INPUT_CONTENTS, _pack(item.datatype, value)))
                except (struct.error, OverflowError):
                    raise _beyond(item, value) from None
        return b"".join(parts + contents)

    def _head(self, model_version: str, priority: int) -> bytes:
        """What requests of this priority have in common."""
        head = pb.ModelInferRequest(model_name=self.model.name, model_version=model_version)
        head.parameters["priority"].uint64_param = priority
        if self.ends_by_final:
            head.parameters["triton_enable_empty_final_response"].bool_param = True
        return bytes(head.SerializeToString()) + self._base

    def _describe(self, item: Input, value: Value) -> Any:
        count = len(value) if isinstance(value, tuple | list) else 1
        shape = (*self._leading, *(1,) * (item.dims - 1), count) if item.dims else self._leading
        return pb.ModelInferRequest.InferInputTensor(name=item.name, datatype=item.datatype, shape=shape)


def capabilities(signature: Signature, model: facts.Model | None = None) -> Capabilities:
    """What a model does with each parameter; without one, what its signature has at best."""
    handled = {} if signature.embeds else dict(_BY_THE_GATEWAY)
    for item in signature.inputs if model is None else _present(signature, model):
        for name in PARAMETERS.get(item.value, ()):
            handled[name] = "translated"
    if signature.cuts_stop_words and not signature.embeds:
        handled.setdefault("stop", "gateway")
    handled.setdefault("max_tokens", "gateway")  # by cutting the answer, which costs the server what nobody gets
    # vLLM's embeddings are for Triton's own frontend alone (vllm_backend:src/model.py).
    operations: frozenset[Operation] = frozenset(("embeddings",)) if signature.embeds else GENERATION
    offered = Capabilities(signature.title, handled, operations)
    return _offers.setdefault((signature.title, signature.embeds, *sorted(handled.items())), offered)


def _present(signature: Signature, model: facts.Model) -> list[Input]:
    """The inputs that the model has, and that it can use."""
    streams = model.decoupled
    return [
        item
        for item in signature.inputs
        if item.name in model.inputs
        and (item.value != "stream" or streams or not model.inputs[item.name].optional)
        and (item.name != "image_url_input" or model.has_images)
    ]


def _or(value_of: Callable[[Request], Value], default: Value) -> Callable[[Request], Value]:
    def value(request: Request) -> Value:
        given = value_of(request)
        return default if given is None else given

    return value


def _beyond(item: Input, value: Value) -> InvalidError:
    param = PARAMETERS.get(item.value, (item.value,))[0]
    return InvalidError(
        f"`{param}` is {str(value)[:40]}, which this model's server cannot take as {item.datatype}.", param=param
    )


def _is_list(item: Input) -> bool:
    return item.value in ("prompt_ids", "stop", "bad_words", "images_base64", "image_urls")


def _only_input(tensor: Any) -> bytes:
    return bytes(pb.ModelInferRequest(inputs=[tensor]).SerializeToString())


def _pack(datatype: str, value: Any) -> bytes:
    if isinstance(value, tuple | list):
        if datatype in ARRAYS:
            return array(ARRAYS[datatype], value).tobytes()
        return b"".join(_pack(datatype, item) for item in value)
    if datatype == "BYTES":
        text = str(value).encode("utf-8", "replace")
        return _length.pack(len(text)) + text
    return _PACK[datatype](value)
