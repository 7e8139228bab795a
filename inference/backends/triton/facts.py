"""What a Triton says of a model, and which signature fits it."""

from collections.abc import Mapping
from typing import NamedTuple

from inference.backends.triton.signatures import SIGNATURES, Signature
from inference.contract.tensor_mapping import ANSWERS

_UNFILLED = "${"  # how parameters of the published config.pbtxt begin where nobody has filled them in
_SHOWN = 8  # tensors of each kind in a message


class Tensor(NamedTuple):
    """`datatype` as in requests: BYTES, INT32, …"""

    datatype: str
    optional: bool = False


class Model(NamedTuple):
    """The configuration of a model. `batched` adds a first dimension to each tensor. `text_so_far` says whether each
    response repeats the text before it, None if nobody knows.
    """

    name: str
    backend: str = ""
    platform: str = ""
    batched: bool = False
    decoupled: bool = False
    inputs: Mapping[str, Tensor] = {}
    outputs: Mapping[str, str] = {}  # datatypes
    parameters: Mapping[str, str] = {}
    text_so_far: bool | None = False

    def parameter(self, name: str) -> str:
        value = self.parameters.get(name, "")
        return "" if value.startswith(_UNFILLED) else value

    @property
    def accumulates(self) -> bool:
        """Whether a BLS answers with the text so far (tensorrt_llm_bls/1/model.py)."""
        return self.parameter("accumulate_tokens").lower() in ("true", "yes", "1", "t")

    @property
    def has_images(self) -> bool:
        """Whether a BLS has an encoder for the images that its inputs take."""
        return bool(self.parameter("multimodal_encoders_name"))


def recognise(model: Model) -> Signature | None:
    """The signature that a model has, by what tells it from the others."""
    inputs = model.inputs
    if "sampling_parameters" in inputs or model.backend == "vllm":
        return SIGNATURES["vllm"]
    if "sampling_param_max_tokens" in inputs:
        return SIGNATURES["trtllm_llmapi"]
    if "text_input" in inputs and "max_tokens" in inputs:
        bls = model.platform != "ensemble" and ("num_draft_tokens" in inputs or "accumulate_tokens" in model.parameters)
        return SIGNATURES["trtllm_bls" if bls else "trtllm_ensemble"]
    return SIGNATURES["weir"] if "prompt" in inputs and "prompt_tokens" in inputs else None


def misfit(model: Model, signature: Signature) -> str:
    """Why a model cannot be served with a signature, with the remedy; empty where it can."""
    known = {item.name: item for item in signature.inputs}
    carriers = [it for it in signature.inputs if it.value in ("prompt", "prompt_ids") and it.name in model.inputs]
    answers = [it for it in signature.outputs if it.value in ANSWERS and it.name in model.outputs]
    if not carriers or not answers:
        return f"model {model.name!r} does not fit signature {signature.name!r}{_remedy(model)} ({_tensors(model)})"
    for name, tensor in model.inputs.items():
        if not tensor.optional and name not in known:
            return (
                f"model {model.name!r} needs input {name!r}, for which signature {signature.name!r} has no value: "
                "enter the model's tensors in the pool's mapping"
            )
        if name in known and known[name].datatype != tensor.datatype:
            return _other_type(model, "input", name, tensor.datatype, signature, known[name].datatype)
    if signature.embeds and model.decoupled:
        return (
            f"model {model.name!r} is decoupled: one that embeds answers each request once (`model_transaction_policy`)"
        )
    for item in signature.outputs:
        if item.name in model.outputs and model.outputs[item.name] != item.datatype:
            return _other_type(model, "output", item.name, model.outputs[item.name], signature, item.datatype)
    return ""


def unrecognised(model: Model) -> str:
    """Why no signature was recognised, with the remedy."""
    return f"model {model.name!r} fits no signature that the gateway knows{_remedy(model)} ({_tensors(model)})"


def _other_type(model: Model, kind: str, name: str, has: str, signature: Signature, expected: str) -> str:
    return (
        f"model {model.name!r} has {kind} {name!r} of type {has}, and signature {signature.name!r} {expected}: "
        "choose another signature, or enter the model's tensors in the pool's mapping"
    )


def _tensors(model: Model) -> str:
    inputs = ", ".join(f"{name} {tensor.datatype}" for name, tensor in list(model.inputs.items())[:_SHOWN])
    outputs = ", ".join(f"{name} {datatype}" for name, datatype in list(model.outputs.items())[:_SHOWN])
    return f"inputs: {inputs or 'none'}; outputs: {outputs or 'none'}"


def _remedy(model: Model) -> str:
    if "input_ids" in model.inputs:
        return ": it takes token ids. Name the model in front of it that takes text, or enter its tensors in the pool's mapping"
    return ": choose its signature in the pool, or enter its tensors there as a mapping"
