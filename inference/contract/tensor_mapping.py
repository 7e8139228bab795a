"""Names the tensors of a model on Triton that has none of the known signatures, as an owner enters them."""

from typing import Annotated, Literal

import msgspec

from inference.contract.lenient import Exact

INTEGERS = ("INT32", "INT64", "UINT32", "UINT64")
ANSWERS = ("text", "text_so_far", "token_ids", "embedding")
"""The values of outputs that are an answer; a model needs one of them."""


class InputTensor(Exact, frozen=True):
    """A tensor that a model takes. `value` is what it carries; `constant` is the JSON value of it where that is the same
    for all requests. The tensor has `dims` dimensions.
    """

    name: str
    datatype: Literal["BYTES", "BOOL", "INT32", "INT64", "UINT32", "UINT64", "FP32"]
    value: Literal[
        "prompt", "prompt_ids", "prompt_tokens", "max_tokens", "temperature", "top_p", "top_k", "seed", "stop",
        "presence_penalty", "frequency_penalty", "stream", "constant",
    ]  # fmt: skip
    dims: Annotated[int, msgspec.Meta(ge=0, le=8)] = 1
    constant: str = ""


class OutputTensor(Exact, frozen=True):
    """A tensor that a model answers with. `text` is new text, `text_so_far` the whole text until then, `token_ids` new tokens, and
    `embedding` the vector of the one text that the model was asked for.
    """

    name: str
    datatype: Literal["BYTES", "BOOL", "INT32", "INT64", "UINT32", "UINT64", "FP32"]
    value: Literal["text", "text_so_far", "finish_reason", "prompt_tokens", "output_tokens", "embedding", "token_ids"]


class TensorMapping(Exact, frozen=True):
    """The tensors of a model on Triton that has none of the known signatures."""

    inputs: tuple[InputTensor, ...]
    outputs: tuple[OutputTensor, ...]

    @property
    def has_ids(self) -> bool:
        """Whether prompts or answers are token ids, so that the model's own tokenizer has to be there."""
        return any(it.value == "prompt_ids" for it in self.inputs) or any(
            it.value == "token_ids" for it in self.outputs
        )


def check_mapping(mapping: TensorMapping) -> None:
    """Raises ValueError with what is missing or wrong, and the remedy."""
    if not any(tensor.value in ("prompt", "prompt_ids") for tensor in mapping.inputs):
        raise ValueError(
            "mapping has no input with the value 'prompt' or 'prompt_ids': name the tensor that takes the text, or its token ids"
        )
    ids: list[InputTensor | OutputTensor] = [it for it in mapping.inputs if it.value == "prompt_ids"]
    ids += [it for it in mapping.outputs if it.value == "token_ids"]
    if wrong := next((it for it in ids if it.datatype not in INTEGERS), None):
        raise ValueError(f"mapping: {wrong.name!r} is {wrong.datatype}: token ids are {', '.join(INTEGERS)}")
    answers = [tensor for tensor in mapping.outputs if tensor.value in ANSWERS]
    if not answers:
        raise ValueError(
            "mapping has no output with the value 'text', 'text_so_far', 'token_ids' or 'embedding': name the tensor with the answer"
        )
    if any(tensor.value == "embedding" for tensor in answers):
        if len(mapping.outputs) > 1:
            raise ValueError("mapping has outputs beside the 'embedding': a model that embeds has no other")
        if answers[0].datatype != "FP32":
            raise ValueError(f"mapping: the embedding {answers[0].name!r} is {answers[0].datatype}: it has to be FP32")
    for tensor in mapping.inputs:
        if tensor.value != "constant":
            continue
        try:
            msgspec.json.decode(tensor.constant)
        except msgspec.DecodeError:
            raise ValueError(
                f'mapping: constant {tensor.constant!r} of tensor {tensor.name!r} is not JSON: write a value such as 40, true or "text"'
            ) from None
