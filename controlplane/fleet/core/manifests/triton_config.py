"""Writes a model's `config.pbtxt` for Triton.

Fields: triton-inference-server/common:protobuf/model_config.proto. Tensors of `weir`: docs/models.md; of `vllm`:
triton-inference-server/vllm_backend:src/model.py, which completes the configuration itself.
"""

import struct

import msgspec

from controlplane.fleet.core.manifests.pbtxt import Literal, text
from controlplane.fleet.core.manifests.values import Batching, TritonModel
from inference.contract.tensor_mapping import InputTensor, OutputTensor, TensorMapping

RENDERED = ("weir", "vllm", "mapping")
"""Signatures whose configuration can be written. TensorRT-LLM's models come with theirs, because they depend on the engine."""

WARMED = ("weir", "mapping")
"""Of them, those that Triton warms up: vLLM's backend runs the engine's own warm-up while it loads."""

WEIR = TensorMapping(
    inputs=(
        InputTensor("prompt", "BYTES", "prompt"),
        InputTensor("prompt_tokens", "INT32", "prompt_tokens"),
        InputTensor("max_tokens", "INT32", "max_tokens"),
        InputTensor("temperature", "FP32", "temperature"),
        InputTensor("seed", "INT64", "seed"),
    ),
    outputs=(OutputTensor("text", "BYTES", "text"), OutputTensor("finish_reason", "BYTES", "finish_reason")),
)
_TYPES = {"BYTES": "STRING"}  # the protocol's name for a type, and the configuration's, where they differ
_FORMATS = {"BOOL": "<?", "INT32": "<i", "INT64": "<q", "UINT32": "<I", "UINT64": "<Q", "FP32": "<f"}


class NotRenderedError(ValueError):
    """Permanent: the configuration of such a model is not written by Weir. The message has the remedy."""


def config_pbtxt(model: TritonModel) -> str:
    """The file's text. Raises NotRenderedError."""
    if model.signature not in RENDERED:
        raise NotRenderedError(
            f"signature {model.signature!r} of model {model.name!r}: its config.pbtxt depends on the engine. "
            "Put the whole model repository into the store, and leave the backend empty."
        )
    message: dict[str, object] = {
        "name": model.name,
        "backend": model.backend,
        "max_batch_size": model.batching.max_batch_size,
        "model_transaction_policy": {"decoupled": True},
    }
    if model.signature == "vllm":
        # The engine batches and places itself. A request waits in the engine, not in Triton.
        message["instance_group"] = [{"count": 1, "kind": Literal("KIND_MODEL")}]
    else:
        tensors = _tensors(model)
        message["input"] = [_tensor(each.name, each.datatype, each.dims) for each in tensors.inputs]
        message["output"] = [_tensor(each.name, each.datatype, 1) for each in tensors.outputs]
        message["instance_group"] = [{"count": model.instances, "kind": Literal("KIND_AUTO")}]
        if model.batching.max_batch_size > 0:
            message["dynamic_batching"] = _dynamic_batching(model.batching)
        # Triton is ready once the sample has been answered, so the first user meets a warm model.
        message["model_warmup"] = [_warm_up(model, tensors)]
    message["parameters"] = [{"key": key, "value": {"string_value": value}} for key, value in model.parameters]
    return text(message)


def _dynamic_batching(batching: Batching) -> dict[str, object]:
    made: dict[str, object] = {
        "preferred_batch_size": list(batching.preferred_sizes),
        "max_queue_delay_microseconds": batching.max_queue_delay_us,
    }
    if batching.priority_levels:
        made["priority_levels"] = batching.priority_levels
        made["default_priority_level"] = batching.default_priority
    if batching.max_queue_size or batching.queue_timeout_us:
        made["default_queue_policy"] = {
            "timeout_action": Literal("REJECT"),
            "default_timeout_microseconds": batching.queue_timeout_us,
            "allow_timeout_override": True,
            "max_queue_size": batching.max_queue_size,
        }
    return made


def _tensors(model: TritonModel) -> TensorMapping:
    if model.signature == "weir":
        return WEIR
    if model.mapping is None:
        raise NotRenderedError(f"signature 'mapping' of model {model.name!r} has no mapping: enter the pool's tensors")
    return model.mapping


def warm_up_files(model: TritonModel) -> dict[str, bytes]:
    """What a warm-up sends, by tensor: the contents of the files in the model's folder `warmup`."""
    if model.signature not in WARMED:
        return {}
    return {tensor.name: _encoded(tensor, model) for tensor in _tensors(model).inputs}


def _encoded(tensor: InputTensor, model: TritonModel) -> bytes:
    """One element as Triton's raw input has it: little-endian, and a text behind its length."""
    given: dict[str, object] = {
        "prompt": model.warm_up_prompt,
        "prompt_tokens": max(1, len(model.warm_up_prompt) // 4),
        "max_tokens": model.warm_up_tokens,
        "temperature": 1.0,
        "top_p": 1.0,
        "stream": True,
    }
    constant = msgspec.json.decode(tensor.constant) if tensor.value == "constant" else 0
    value = given.get(tensor.value, constant)
    if tensor.datatype == "BYTES":
        data = value.encode() if isinstance(value, str) else b""
        return struct.pack("<I", len(data)) + data
    return struct.pack(_FORMATS[tensor.datatype], value)


def _tensor(name: str, datatype: str, dims: int) -> dict[str, object]:
    # A dimension that batching adds is not part of `dims`; others beyond the first have one entry.
    return {"name": name, "data_type": Literal(f"TYPE_{_TYPES.get(datatype, datatype)}"), "dims": [1] * dims}


def _warm_up(model: TritonModel, tensors: TensorMapping) -> dict[str, object]:
    inputs = [
        {
            "key": each.name,
            "value": {
                "data_type": Literal(f"TYPE_{_TYPES.get(each.datatype, each.datatype)}"),
                "dims": [1] * each.dims,
                "input_data_file": each.name,
            },
        }
        for each in tensors.inputs
    ]
    return {"name": "warm-up", "batch_size": 1 if model.batching.max_batch_size else 0, "inputs": inputs}
