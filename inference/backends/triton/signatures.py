"""What models on Triton call their tensors, as tables: which value of a question each input carries, and what each output
means.

Sources: triton-inference-server/vllm_backend:src/model.py; NVIDIA/TensorRT-LLM:triton_backend/all_models/
{inflight_batcher_llm/ensemble,inflight_batcher_llm/tensorrt_llm_bls,llmapi/tensorrt_llm}/config.pbtxt; docs/models.md for
`weir`. An input that a model does not have is not sent, because older releases have fewer.
"""

from typing import NamedTuple

from inference.contract.tensor_mapping import TensorMapping


class Input(NamedTuple):
    """An input tensor. `value` is a name of `values.VALUES`, or `constant` with its JSON. `dims` is how many dimensions it has
    besides the batch's.
    """

    name: str
    datatype: str
    value: str
    dims: int = 1
    constant: str = ""


class Output(NamedTuple):
    """An output tensor. `value` is text (new text), text_so_far, finish_reason, prompt_tokens, output_tokens, logprobs,
    sequence (the index of the choice), token_ids (new ones), or embedding.
    """

    name: str
    datatype: str
    value: str


class Signature(NamedTuple):
    """`title` is what clients read. `ends` is how an answer ends: with a `finish_reason`, or with Triton's `final` response,
    and then the gateway infers the reason. Where the server leaves stop words in its text, or knows none, `cuts_stop_words`
    is set. `choices` is set where the server makes several answers to one call. With `statuses` Triton is told to end failed calls
    with a gRPC status; only for models that send nothing after an error.
    """

    name: str
    title: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    ends: str = "final"
    cuts_stop_words: bool = True
    choices: bool = False
    # Else Triton 2.51 crashes (SIGSEGV in TRITONBACKEND_ResponseFactorySendFlags): the published BLS sends its final
    # response after the one with the error.
    statuses: bool = False

    @property
    def embeds(self) -> bool:
        """Whether it answers with a vector, and not with text."""
        return any(item.value == "embedding" for item in self.outputs)

    @property
    def takes_ids(self) -> bool:
        return any(item.value == "prompt_ids" for item in self.inputs)


def _true(*names: str) -> tuple[Input, ...]:
    return tuple(Input(name, "BOOL", "constant", constant="true") for name in names)


_TRTLLM_INPUTS = (
    Input("text_input", "BYTES", "prompt"),
    Input("max_tokens", "INT32", "max_tokens"),
    Input("stop_words", "BYTES", "stop"),
    Input("bad_words", "BYTES", "bad_words"),
    Input("temperature", "FP32", "sampling_temperature"),
    Input("top_p", "FP32", "sampling_top_p"),
    Input("top_k", "INT32", "sampling_top_k"),
    Input("seed", "UINT64", "sampling_seed"),
    Input("presence_penalty", "FP32", "presence_penalty"),
    Input("frequency_penalty", "FP32", "frequency_penalty"),
    Input("repetition_penalty", "FP32", "repetition_penalty"),
    Input("min_tokens", "INT32", "min_tokens"),
    Input("guided_decoding_guide_type", "BYTES", "guide_type"),
    Input("guided_decoding_guide", "BYTES", "guide"),
    Input("stream", "BOOL", "stream"),
    *_true("exclude_input_in_output", "return_num_input_tokens", "return_num_output_tokens"),
)
_TRTLLM_OUTPUTS = (
    Output("text_output", "BYTES", "text"),
    Output("num_input_tokens", "INT32", "prompt_tokens"),
    Output("num_output_tokens", "INT32", "output_tokens"),
)

WEIR = Signature(
    "weir",
    "Triton with Weir's tensors",
    (
        Input("prompt", "BYTES", "prompt"),
        Input("prompt_tokens", "INT32", "prompt_tokens"),
        Input("max_tokens", "INT32", "max_tokens"),
        Input("temperature", "FP32", "temperature"),
        Input("seed", "INT64", "seed_or_none"),
    ),
    (Output("text", "BYTES", "text"), Output("finish_reason", "BYTES", "finish_reason")),
    ends="finish_reason",
    statuses=True,
)
VLLM = Signature(
    "vllm",
    "Triton with its vLLM backend",
    (
        Input("text_input", "BYTES", "prompt"),
        Input("image", "BYTES", "images_base64"),
        Input("sampling_parameters", "BYTES", "vllm_sampling"),
        Input("return_logprobs", "BOOL", "wants_logprobs"),
        *_true(
            "stream",
            "exclude_input_in_output",
            "return_finish_reason",
            "return_num_input_tokens",
            "return_num_output_tokens",
        ),
    ),
    (
        Output("text_output", "BYTES", "text"),
        Output("finish_reason", "BYTES", "finish_reason"),
        Output("logprobs", "BYTES", "logprobs"),
        Output("num_input_tokens", "UINT32", "prompt_tokens"),
        Output("num_output_tokens", "UINT32", "output_tokens"),
    ),
    ends="finish_reason",
    cuts_stop_words=False,
)
TRTLLM_ENSEMBLE = Signature(
    "trtllm_ensemble",
    "Triton with TensorRT-LLM (ensemble)",
    (*_TRTLLM_INPUTS, Input("num_return_sequences", "INT32", "choices")),
    (*_TRTLLM_OUTPUTS, Output("sequence_index", "INT32", "sequence")),
    choices=True,
)
# Its decoder reads no `num_return_sequences` (tensorrt_llm_bls/1/lib/triton_decoder.py, `input_names`).
TRTLLM_BLS = Signature(
    "trtllm_bls",
    "Triton with TensorRT-LLM (BLS)",
    (*_TRTLLM_INPUTS, Input("image_url_input", "BYTES", "image_url")),
    _TRTLLM_OUTPUTS,
)
TRTLLM_LLMAPI = Signature(
    "trtllm_llmapi",
    "Triton with TensorRT-LLM (LLM API)",
    (
        Input("text_input", "BYTES", "prompt"),
        Input("image_url", "BYTES", "image_urls"),
        Input("sampling_param_max_tokens", "INT32", "max_tokens"),
        Input("sampling_param_stop", "BYTES", "stop"),
        Input("sampling_param_temperature", "FP32", "sampling_temperature"),
        Input("sampling_param_top_p", "FP32", "sampling_top_p"),
        Input("sampling_param_top_k", "INT32", "sampling_top_k"),
        Input("sampling_param_seed", "UINT64", "sampling_seed"),
        Input("sampling_param_presence_penalty", "FP32", "presence_penalty"),
        Input("sampling_param_frequency_penalty", "FP32", "frequency_penalty"),
        Input("streaming", "BOOL", "stream"),
        *_true("sampling_param_exclude_input_from_output", "return_finish_reason"),
    ),
    # Whether the text is new or so far differs between releases: see `facts.Model.text_so_far`.
    (Output("text_output", "BYTES", "text"), Output("finish_reason", "BYTES", "finish_reason")),
    ends="finish_reason",
)

SIGNATURES = {item.name: item for item in (WEIR, VLLM, TRTLLM_ENSEMBLE, TRTLLM_BLS, TRTLLM_LLMAPI)}

_MAPPED_VALUES = {"temperature": "temperature", "seed": "seed_or_none"}


def of_mapping(mapping: TensorMapping) -> Signature:
    """The signature that a fleet's owner has entered."""
    return Signature(
        "mapping",
        "Triton with mapped tensors",
        tuple(
            Input(
                tensor.name,
                tensor.datatype,
                _MAPPED_VALUES.get(tensor.value, tensor.value),
                tensor.dims,
                tensor.constant,
            )
            for tensor in mapping.inputs
        ),
        tuple(Output(tensor.name, tensor.datatype, tensor.value) for tensor in mapping.outputs),
        ends="finish_reason" if any(tensor.value == "finish_reason" for tensor in mapping.outputs) else "final",
    )
